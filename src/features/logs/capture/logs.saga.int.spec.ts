import * as given from '../../../../test/support/agents.ts';
import { freePass } from '../../../../test/support/saga-pass.ts';
import type { Sagas } from '../../../eventsourcing/sagas/saga.ts';
import type { ContainerState } from '../../../runtime/container.ts';
import type { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { AgentEvent } from '../../agents/index.ts';
import type { Agents } from '../../agents/services.ts';
import type { DrainedRuns } from '../output/drained-runs.ts';
import type { LogCapture } from './log-capture.service.ts';
import { LogsSaga } from './logs.saga.ts';

/** Returns the containers that are followed, and whether the agent is looked at again soon. */
async function look(history: readonly AgentEvent[], ...containers: [generation: number, state: ContainerState][]) {
  const followed: number[] = [];
  const follow = ({ generation }: { generation: number }) => Promise.resolve(followed.push(generation));
  const inspect = () => Promise.resolve({ containers: containers.map(([generation, state]) => ({ agentId: 'a1', generation, state })) });
  const saga = new LogsSaga(
    {} as Sagas,
    { follow, drain: () => Promise.resolve(false) } as unknown as LogCapture,
    { inspect } as unknown as ContainerRuntime,
    { find: () => Promise.resolve({ state: given.stateAfter(...history), revision: 0 }) } as unknown as Agents,
    { has: () => false } as unknown as DrainedRuns,
  );
  const again = await saga.reconcile('a1', freePass());
  return { followed, soon: again !== null && again.getTime() - Date.now() <= 1_000 };
}

const releasing = [...given.active, given.requested('d2', 2), given.releaseResolved('d2'), given.releaseBegun('d2', 2)];

it('looks again soon at an agent whose release command is about to be started, and follows it when it runs', async () => {
  expect(await look(releasing, [1, 'exited'], [2, 'created'])).toEqual({ followed: [], soon: true });
  expect(await look(releasing, [1, 'exited'], [2, 'running'])).toEqual({ followed: [2], soon: false });
});

it('does not look again and again at a container that nobody starts', async () => {
  expect(await look(given.stopped, [1, 'created'])).toEqual({ followed: [], soon: false });
});
