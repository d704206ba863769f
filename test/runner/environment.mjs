import Dockerode from 'dockerode';
import { ModernFakeTimers } from '@jest/fake-timers';
import { ModuleMocker } from 'jest-mock';

import { collectEvidence, forgetWitnesses } from './evidence.ts';

const mocker = new ModuleMocker(globalThis);
const exit = process.exit.bind(process);
const timeoutOfFile = Symbol.for('TEST_TIMEOUT_SYMBOL');

/** The tiers whose files need a Docker Engine. */
const tiersWithEngine = ['docker', 'e2e'];
const ENGINE_TIMEOUT_MS = 5_000;
/** The failures of one file of which evidence is printed: the first ones say most. */
const FAILURES_SHOWN = 10;
let engine;

/**
 * Lets the files of a worker run in the worker's own global scope (docs/explanation/decisions/0046): a module is loaded once for all of them. What a
 * file may leave behind is put back after it: mocks, the clock, environment variables, the working directory, the console.
 */
export default class WorkerEnvironment {
  global = globalThis;
  moduleMocker = mocker;
  fakeTimers = null;
  fakeTimersModern;
  /** The errors of `beforeAll`, each of which jest-circus counts as an error of each test. */
  hookErrors = new Set();
  failuresShown = 0;

  constructor({ projectConfig }, { testPath }) {
    this.tier = projectConfig.displayName?.name;
    this.testPath = testPath;
    this.fakeTimersModern = new ModernFakeTimers({ config: projectConfig, global: globalThis });
    this.before = { console: globalThis.console, variables: { ...process.env }, directory: process.cwd() };
  }

  exportConditions() {
    return ['node', 'node-addons'];
  }

  /** jest asks for a context of the file's own. It has none. */
  getVmContext() {
    return null;
  }

  async setup() {
    // jest maps the stack traces of what it compiled itself. Node's own mapping (--enable-source-maps) knows these modules.
    Error.prepareStackTrace = undefined;
    this.print = globalThis.console.log.bind(globalThis.console);
    globalThis.jest = jestObject(this.fakeTimersModern);
    if (tiersWithEngine.includes(this.tier)) await this.requireEngine();
  }

  /** Throws if no Docker Engine answers: a file that can't run must not count as passed. */
  async requireEngine() {
    engine ??= new Dockerode({ timeout: ENGINE_TIMEOUT_MS }).ping().then(
      () => null,
      (error) => error.message,
    );
    const reason = await engine;
    if (reason === null) return;
    throw new Error(
      `These tests were not run, because no Docker Engine answers (${reason}). Start one, or run \`npm test\`, which needs none.`,
    );
  }

  /** Prints what the service did around a failure: where the tests run, nobody may be able to look afterwards. */
  async handleTestEvent({ name, test, hook, error }) {
    if (name === 'hook_failure' && hook.type === 'beforeAll') {
      this.hookErrors.add(error);
      await this.showEvidence('beforeAll');
    }
    if (name === 'test_done' && test.errors.some((each) => !this.hookErrors.has(Array.isArray(each) ? each[0] : each)))
      await this.showEvidence(`"${test.name}"`);
  }

  async showEvidence(failed) {
    this.failuresShown += 1;
    if (this.failuresShown > FAILURES_SHOWN) return;
    const evidence = await collectEvidence();
    if (evidence !== '') this.print(`What was seen when ${failed} failed:\n${evidence}`);
  }

  async teardown() {
    const { console, variables, directory } = this.before;
    this.fakeTimersModern.dispose();
    mocker.restoreAllMocks();
    forgetWitnesses();
    globalThis.console = console;
    process.exit = exit;
    delete globalThis[timeoutOfFile];
    for (const name of Object.keys(process.env)) if (!(name in variables)) delete process.env[name];
    Object.assign(process.env, variables);
    process.chdir(directory);
  }
}

/** The part of jest's own object that the tests use. */
function jestObject(timers) {
  return {
    fn: mocker.fn.bind(mocker),
    spyOn: mocker.spyOn.bind(mocker),
    restoreAllMocks: () => mocker.restoreAllMocks(),
    useFakeTimers: (options) => timers.useFakeTimers(options),
    useRealTimers: () => timers.useRealTimers(),
    advanceTimersByTimeAsync: (ms) => timers.advanceTimersByTimeAsync(ms),
    setTimeout: (ms) => void (globalThis[timeoutOfFile] = ms),
  };
}
