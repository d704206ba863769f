import type { QueryBus } from '@nestjs/cqrs';

import type { ContainerRuntime } from '../../../runtime/runtime.ts';
import type { ListedContainer } from '../../../runtime/container.ts';
import type { FollowedKind } from '../../../sandboxes/index.ts';
import { ContainerKinds } from '../../../sandboxes/services.ts';
import { RuntimeDrift } from './runtime-drift.service.ts';

const listed = (agentId: string, generation = 1): ListedContainer => ({
  agentId,
  generation,
  deploymentId: agentId,
  handle: `${agentId} ${generation}`,
  state: 'running',
});

/** Returns a kind whose sandboxes with these ids exist, are `fine`, and want a running container of generation 2. */
function kindWith(kind: 'agent' | 'computer', ids: readonly string[]): FollowedKind {
  const rules = { isGone: () => false, isInTransit: () => false, isBeingDeleted: () => false, statusOf: () => 'fine' };
  return {
    kind,
    rules: { ...rules, wantedStates: () => ['running'] },
    records: { load: async (id: string) => (ids.includes(id) ? { state: { generation: 2 }, revision: 0 } : null) },
    rows: { live: async () => ids },
  } as unknown as FollowedKind;
}

describe('the comparison of the engine with the log', () => {
  it('names agents and computers by their own ids, each with its status', async () => {
    const runtime = {
      name: 'docker',
      list: async () => ({
        containers: [listed('a', 2), listed('computer-b', 2), listed('computer-b'), listed('computer-gone')],
        volumes: ['a', 'computer-b', 'computer-gone', 'gone'],
      }),
      images: { list: async () => ({ own: [], ownBytes: 0, all: { count: 0, bytes: 0 } }) },
    } as unknown as ContainerRuntime;
    const kinds = new ContainerKinds();
    kinds.register(kindWith('agent', ['a', 'away']));
    kinds.register(kindWith('computer', ['computer-b', 'computer-away']));
    const found = await new RuntimeDrift(runtime, kinds, { execute: async () => null } as unknown as QueryBus).find();
    const agent = { computer_id: null, computer_status: null };
    const computer = { agent_id: null, agent_status: null, deployment_id: null };
    expect(found.containers).toMatchObject([
      { ...agent, agent_id: 'a', agent_status: 'fine', deployment_id: 'a', verdict: 'as_wanted' },
      { ...computer, computer_id: 'b', computer_status: 'fine', verdict: 'as_wanted', wanted_generation: 2 },
      { ...computer, computer_id: 'b', computer_status: 'fine', verdict: 'orphan' },
      { ...computer, computer_id: 'gone', computer_status: null, verdict: 'orphan', wanted_generation: null },
    ]);
    expect(found.orphans).toEqual({
      containers: ['computer-b 1', 'computer-gone 1'],
      volumes: ['mooring-computer-gone', 'mooring-gone'],
    });
    expect(found.missing).toEqual([
      { ...agent, agent_id: 'away', agent_status: 'fine' },
      { agent_id: null, agent_status: null, computer_id: 'away', computer_status: 'fine' },
    ]);
  });
});
