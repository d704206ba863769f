import type { ContainerKind, PassWork } from './container-kind.ts';
import type { ContainerView } from '../../runtime/container.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { ContainerSteps } from './container-steps.service.ts';
import type { EngineView } from './engine-view.service.ts';
import { StepExecutors } from './step-executors.ts';

type Record = { type: 'RecordFailure'; kind: 'timeout'; reason: string };

/** Waits for a container that does not become ready, and returns what is recorded about it. */
async function recordOf(explanation: string | null): Promise<unknown[]> {
  const recorded: unknown[] = [];
  const containers = { isReady: () => Promise.resolve(false), explainUnready: () => Promise.resolve(explanation) };
  const kind = { containers } as unknown as ContainerKind<Sandbox, Record>;
  const engine = {
    runUntilStale: (_pass: unknown, _isWait: boolean, _isStale: unknown, run: (signal: AbortSignal) => unknown) =>
      run(new AbortController().signal),
  } as unknown as EngineView;
  const work = {
    pass: { withoutSlot: (run: () => unknown) => run() },
    seen: { state: {}, revision: 0 },
    record: (_seen: unknown, record: unknown) => Promise.resolve(recorded.push(record) > 0),
  } as unknown as PassWork<Sandbox, Record>;
  const otherwise = { type: 'RecordFailure' as const, kind: 'timeout' as const, reason: 'It was not ready in time.' };
  const executors = new StepExecutors(kind, engine, {} as ContainerSteps);
  await executors.execute(work, { do: 'await_ready', container: {} as ContainerView, withinMs: 1, otherwise });
  return recorded;
}

describe('a container that does not become ready, whatever it was started for', () => {
  it('fails with the reason that was seen', async () => {
    expect(await recordOf('GET /healthz on port 8080 answered 404.')).toMatchObject([
      { type: 'RecordFailure', reason: 'It was not ready in time: GET /healthz on port 8080 answered 404.' },
    ]);
  });

  it('fails without a reason where none was seen', async () => {
    expect(await recordOf(null)).toMatchObject([{ reason: 'It was not ready in time.' }]);
  });
});
