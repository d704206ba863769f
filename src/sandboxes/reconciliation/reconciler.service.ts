/**
 * Brings the containers of one kind of sandboxes to the desired state in their streams, step by step.
 *
 * Owns: the loop of one pass. Does not own the decision which step is next (the kind's rules), how a step changes the engine
 * (`ContainerSteps`), or which sandboxes need a pass (`Differences`).
 *
 * R1  A step follows from the recorded state and the actual one alone, so any step can be repeated and any pass interrupted.
 * R2  The lease is checked right before each side effect, so a replica that was suspended during a pass changes nothing when it continues.
 * R3  Each step's outcome is recorded before the next one is decided. The record of a step has a derived id and is stored once.
 * R4  A pass that only waits gives its slot back meanwhile, and the wait ends as soon as an event makes it stale.
 * R5  A refusal of the engine is retried once with a fresh observation before it counts as the failure of the transition; while the engine
 *     is unavailable, the transition is retried until its deadline.
 * R6  Containers of a sandbox that the log does not know are left alone.
 */
import { Injectable, Logger } from '@nestjs/common';

import type { ContainerView } from '../../runtime/container.ts';
import { ContainerGone, EngineUnsupported, ImageGone, RuntimeRefused, RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import type { SagaKey, SagaPass } from '../../eventsourcing/sagas/saga.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import { actualAfter, isGoingToSleep, isOverdue, type ActualState, type StepRules, type Step } from '../lifecycle/steps.rules.ts';
import type { ContainerKind, RecordedSandbox, PassWork } from './container-kind.ts';
import { ContainerKinds } from './container-kinds.ts';
import { ContainerSteps } from './container-steps.service.ts';
import { Differences } from './differences.service.ts';
import { deadlineSignal, EngineView } from './engine-view.service.ts';
import type { Pass } from './pass.ts';
import { StepExecutors } from './step-executors.ts';

/** The largest number of steps in one pass; the next pass continues. */
const STEPS_MAX = 60;
/** The shortest time until the next look at a sandbox, in ms, such as one whose work delays its sleep. */
const RECHECK_MS_MIN = 1_000;

/**
 * Brings the containers of one kind of sandboxes to the desired state in their streams, step by step: start, stop, sleep, wake, delete and
 * crash share one code path.
 */
export class Reconciler<S extends Sandbox, R extends { type: string }, Own extends { do: string } = never> {
  private readonly logger = new Logger('Reconciler');
  private readonly executors: StepExecutors<S, R, Own>;

  constructor(
    private readonly kind: ContainerKind<S, R, Own>,
    private readonly engine: EngineView,
    private readonly steps: ContainerSteps,
    private readonly differences: Differences,
  ) {
    this.executors = new StepExecutors(kind, engine, steps);
  }

  /** Returns the sandboxes for which a pass would do something. See `Differences.find` and `Differences.list`. */
  async find(listMaxAgeMs: number): Promise<SagaKey[]> {
    return this.differences.find(this.kind, await this.differences.list(listMaxAgeMs));
  }

  /** Does what is to be done for the sandbox now. Returns the time of the next look without an event; null if there is none. */
  async reconcile(sandboxId: string, { signal, assertLease, withoutSlot, setAccount }: SagaPass): Promise<Date | null> {
    const pass: Pass = { sandboxId, signal, assertLease, withoutSlot, started: null, made: null, refused: false, freezeRefused: false };
    const first = await this.kind.records.load(sandboxId);
    if (first === null) return this.ignoreUnknown(pass);
    setAccount(first.state.accountId);
    try {
      return await this.runSteps(pass, first);
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof RuntimeRefused || error instanceof RuntimeUnavailable) return this.settleFailure(pass, error);
      throw error;
    }
  }

  private async runSteps(pass: Pass, first: RecordedSandbox<S>): Promise<Date | null> {
    const { rules: own, records } = this.kind;
    let kept: ActualState | null = null;
    for (let count = 0; count < STEPS_MAX && !pass.signal.aborted; count++) {
      const seen = count === 0 ? first : await records.load(pass.sandboxId);
      if (seen === null) return null;
      const { state } = seen;
      // The last look is used again where nothing may interrupt the transition and the outcome of the step is known.
      const actual: ActualState = (own.mayReuseObservation(state) ? kept : null) ?? (await this.engine.observe(pass, state.generation));
      const rules = this.steps.rules(await this.engine.canFreeze(pass));
      const step = own.nextStep(state, actual, rules, this.engine.now());
      if (step.do === 'rest') {
        if (own.isGone(state)) await this.close(pass, seen);
        return this.nextCheck(state, actual, rules);
      }
      pass.made = null;
      const done = await this.tryStep(pass, seen, step);
      kept = done ? actualAfter(step, actual, pass.made) : null;
      if (done) sagaStep(this.kind.saga, pass.sandboxId, nameOf(step));
      else if (!own.isInTransit(state) && step.do !== 'freeze') return this.nextCheck(state, actual, rules);
    }
    return this.engine.now();
  }

  /**
   * Executes a step. Returns false, so that the sandbox is looked at again, if the container changed meanwhile: it is gone, or the engine
   * refuses for the first time.
   */
  private async tryStep(pass: Pass, seen: RecordedSandbox<S>, step: Step<R, Own>): Promise<boolean> {
    const work = this.workOf(pass, seen);
    try {
      pass.assertLease();
      return await this.executors.execute(work, step);
    } catch (error) {
      const isRefused = error instanceof RuntimeRefused;
      // The sandbox then sleeps by being stopped.
      if (isRefused && step.do === 'freeze') pass.freezeRefused = true;
      else if (error instanceof ContainerGone || (isRefused && !pass.refused)) pass.refused ||= isRefused;
      else throw error;
      if (error instanceof ImageGone) await this.pullAgain(work, error);
      return false;
    }
  }

  /** Pulls the image anew that the engine has lost, such as after its disk was cleared or it was replaced by another one. */
  private async pullAgain({ pass, seen: { state }, isStale, isOver }: PassWork<S, R>, gone: ImageGone): Promise<void> {
    const run = (signal: AbortSignal) => this.kind.containers.pullAgain(state, gone, signal);
    try {
      await this.engine.runWithinDeadline(pass, state, { kind: 'pull', isStale, run });
    } catch (error) {
      if (pass.signal.aborted || !(await isOver())) throw error;
    }
  }

  private workOf(pass: Pass, seen: RecordedSandbox<S>): PassWork<S, R> {
    const { rules, records } = this.kind;
    const isStale = async () => {
      const now = await records.load(pass.sandboxId);
      return now === null || rules.isOutdated(seen.state, now.state);
    };
    const isOver = async () => (await isStale()) || deadlineSignal(seen.state, this.engine.now()).aborted;
    const record = (at: RecordedSandbox<S>, outcome: R, container: ContainerView | null) => this.record(pass, at, outcome, container);
    const recordMeanwhile = async (outcome: R | undefined) => {
      if (outcome === undefined) return;
      for (let at: RecordedSandbox<S> | null = seen; at !== null; at = await records.load(pass.sandboxId))
        if (await record(at, outcome, null)) return sagaStep(this.kind.saga, pass.sandboxId, outcome.type);
    };
    return { pass, seen, isStale, isOver, record, recordMeanwhile };
  }

  private record(pass: Pass, seen: RecordedSandbox<S>, outcome: R, container: ContainerView | null): Promise<boolean> {
    // A process that was suspended sees every timeout expire, whatever happened meanwhile, so the right to act is checked.
    if ('reason' in outcome) pass.assertLease();
    return this.kind.steps.record(pass, seen, outcome, container);
  }

  private async close({ sandboxId, assertLease }: Pass, seen: RecordedSandbox<S>): Promise<void> {
    assertLease();
    await this.engine.deleteActivity(sandboxId);
    await this.kind.containers.onDeleted(sandboxId);
    await this.kind.records.close(sandboxId, seen);
  }

  /** Records a refusal as the failure of the transition. If the engine is unavailable, the transition is retried until its deadline. */
  private async settleFailure(pass: Pass, error: RuntimeRefused | RuntimeUnavailable): Promise<Date | null> {
    const { rules, records } = this.kind;
    const seen = await records.load(pass.sandboxId);
    if (seen === null || !rules.isInTransit(seen.state)) throw error;
    const waits = error instanceof EngineUnsupported ? rules.waitsForEngine(seen.state) : error instanceof RuntimeUnavailable;
    if (waits && !isOverdue(seen.state, this.engine.now())) throw error;
    const kind = error instanceof RuntimeRefused ? 'timeout' : 'runtime';
    await this.record(pass, seen, rules.failure(seen.state, kind, error.message), null);
    return this.engine.now();
  }

  private nextCheck(sandbox: S, actual: ActualState, rules: StepRules): Date | null {
    const now = this.engine.now();
    const at = isGoingToSleep(sandbox) ? now : this.kind.rules.nextCheckAt(sandbox, actual, rules, now);
    const soon = now.getTime() + RECHECK_MS_MIN;
    return at !== null && at.getTime() < soon ? new Date(soon) : at;
  }

  /**
   * Leaves alone a sandbox that the log does not know, and logs its containers or volume. It may belong to another database, or to the time
   * after the backup that was restored.
   */
  private async ignoreUnknown(pass: Pass): Promise<null> {
    const { sandboxId } = pass;
    const { containers, volume } = await this.engine.observe(pass, null);
    if (containers.length > 0 || volume)
      this.logger.warn(`the engine has containers or a volume of ${sandboxId}, which the log does not know; they are left alone`);
    this.differences.ignore(sandboxId);
    return null;
  }
}

function nameOf(step: Step<{ type: string }, { do: string }>): string {
  if (step.do === 'record') return step.record.type;
  return step.do === 'own' ? step.own.do : step.do;
}

/** Makes the reconciler of a kind of sandboxes, for the saga of that kind. */
@Injectable()
export class Reconcilers {
  constructor(
    private readonly engine: EngineView,
    private readonly steps: ContainerSteps,
    private readonly differences: Differences,
    private readonly kinds: ContainerKinds,
  ) {}

  /** The number of passes that a saga runs at once. */
  get passesMax(): number {
    return this.steps.quickCallsMax;
  }

  /** Returns the reconciler of the kind, whose sandboxes are followed on the engine from now on. */
  of<S extends Sandbox, R extends { type: string }, Own extends { do: string }>(kind: ContainerKind<S, R, Own>): Reconciler<S, R, Own> {
    this.kinds.register(kind);
    return new Reconciler(kind, this.engine, this.steps, this.differences);
  }
}
