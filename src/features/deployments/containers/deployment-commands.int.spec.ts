import type { AgentRecord } from '../../agents/index.ts';
import * as given from '../../../../test/support/agents.ts';
import type { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { aborted } from '../../../kernel/async/pause.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import type { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { EngineView } from '../../../sandboxes/services.ts';
import type { AgentRecords } from '../records/agent-records.ts';
import { linesAfter } from '../records/build-log-reading.ts';
import type { ContainerContents } from './container-contents.service.ts';
import { DeploymentCommands, type AgentWork } from './deployment-commands.service.ts';

const agent = given.stateAfter(
  ...given.created,
  given.requested('d1', 1),
  { type: 'DeploymentStarted', data: { deployment_id: 'd1' } },
  given.releaseResolved('d1'),
  given.releaseBegun('d1', 1),
);
const first = `Running the release command: ${JSON.stringify(agent.deployment?.releaseCommand?.command)}`;
const succeeded: ContainerView = {
  agentId: 'a1',
  generation: 1,
  deploymentId: 'd1',
  handle: 'a1-g1',
  state: 'exited',
  exitCode: 0,
  oomKilled: false,
  startedAt: null,
  finishedAt: null,
};

/** Ends the release command, which printed these lines, and returns what the build log shows after that, what was recorded, and what was read. */
function ending(printed: (signal: AbortSignal) => AsyncIterable<string>, earlier: string[] = []) {
  const shown = [...earlier];
  const recorded: AgentRecord[] = [];
  let read = 0;
  const events = {
    async *readStream() {
      for (const line of earlier) yield { revision: 0, data: { lines: [line] } };
    },
  } as unknown as EventStore;
  const log = {
    line: (text: string) => shown.push(text),
    shown: (text: string) => text,
    redacted: (text: string) => text,
    flush: () => Promise.resolve(),
  };
  const runtime = {
    async *logs(_handle: string, _after: null, signal: AbortSignal) {
      for await (const text of printed(signal)) {
        read += 1;
        yield { text };
      }
    },
  } as unknown as ContainerRuntime;
  const records = {
    openBuildLog: () => Promise.resolve(log),
    linesAfter: (id: string, text: string) => linesAfter(events, id, text),
    load: () => Promise.resolve({ state: agent, revision: 1n }),
  } as unknown as AgentRecords;
  const engine = {
    now: () => new Date(Date.parse(agent.deadlineAt ?? '') - 60_000),
    runUntilStale: (_pass: unknown, _engineToo: boolean, _isStale: unknown, run: (signal: AbortSignal) => unknown) =>
      run(new AbortController().signal),
  } as unknown as EngineView;
  const work = {
    pass: { sandboxId: 'a1', signal: new AbortController().signal, withoutSlot: (run: () => unknown) => run() },
    seen: { state: agent, revision: 1n },
    isStale: () => Promise.resolve(false),
    record: (_seen: unknown, record: AgentRecord) => Promise.resolve(recorded.push(record) > 0),
  } as unknown as AgentWork;
  const done = new DeploymentCommands(runtime, records, {} as ContainerContents, engine).endRelease(work, succeeded);
  return { done, shown, recorded, read: () => read };
}

async function* lines(...texts: string[]) {
  yield* texts;
}

const success = { type: 'RecordReleaseSucceeded', deploymentId: 'd1', generation: 1 };

it('copies the output of a release command once, although a line of it looks like the line before it', async () => {
  const printed = ['one', 'Running the release command: again', first, 'four', 'five'];
  const { done, shown, recorded } = ending(() => lines(...printed), ['built', first, ...printed.slice(0, 4)]);
  expect(await done).toBe(true);
  expect(shown).toEqual(['built', first, ...printed]);
  expect(recorded).toEqual([success]);
});

it('reads no more of the output of a release command that has succeeded than its log shows', async () => {
  const endless = async function* () {
    for (;;) yield 'more';
  };
  const { done, shown, recorded, read } = ending(endless);
  expect(await done).toBe(true);
  expect([shown.length, shown.at(-1), read()]).toEqual([10_001, 'The rest of its output is in the log of the agent only.', 10_000]);
  expect(recorded).toEqual([success]);
});

it('waits five seconds at most for the output of a release command that has succeeded', async () => {
  jest.useFakeTimers();
  try {
    const { done, shown, recorded } = ending(async function* (signal) {
      yield 'one';
      await aborted(signal);
    });
    await jest.advanceTimersByTimeAsync(5_000);
    expect(await done).toBe(true);
    expect(shown).toEqual([first, 'one', 'The rest of its output is in the log of the agent only.']);
    expect(recorded).toEqual([success]);
  } finally {
    jest.useRealTimers();
  }
});
