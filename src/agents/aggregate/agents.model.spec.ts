import fc from 'fast-check';

import { owner, steps, walk } from '../../../test/support/agent-walks.ts';
import { fold, NOON } from '../../../test/support/decider-spec.ts';
import { agentStatuses, isInTransit, type Agent, type AgentState } from './agent-state.decider.ts';
import { agentDecider, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

/**
 * Checks that an agent is never in an inconsistent state, whatever callers request and the saga records, in any order, while the clock
 * moves.
 */

function expectSane(before: Agent, agent: Agent, events: AgentEvent[]): void {
  expect([...agentStatuses, 'deleted']).toContain(agent.status);
  expect(agent.deadlineAt !== null).toBe(isInTransit(agent));
  if (agent.restartAt !== null) expect(agent.status).toBe('restarting');
  if (agent.sleepDepth !== null) expect(['sleeping', 'waking']).toContain(agent.status);
  if (agent.status === 'sleeping') expect([agent.sleepDepth, agent.sleptAt]).not.toContain(null);
  if (agent.wantedSleep !== null) expect(['stopping', 'sleeping']).toContain(agent.status);
  expect(agent.activeSince !== null).toBe(agent.status === 'active');
  expect(agent.failure !== null).toBe(agent.status === 'error');
  expect(agent.generation).toBeGreaterThanOrEqual(before.generation);
  if (['active', 'starting', 'restarting', 'waking', 'sleeping'].includes(agent.status)) expect(agent.release).not.toBeNull();
  const open = agent.deployment !== null && ['queued', 'building', 'starting'].includes(agent.deployment.status);
  expect(open).toBe(agent.status === 'deploying');
  if (agent.candidate !== null) expect(agent.candidate.deploymentId).toBe(agent.deployment?.id);
  if (agent.candidate !== null) expect(agent.status).toBe('deploying');
  if (before.status === 'deleted') expect(events).toEqual([]);
  if (before.status === 'deleting') expect(['deleting', 'deleted']).toContain(agent.status);
  expect(agent.message).not.toBe('');
}

const runs = { numRuns: 500 };

it('is never in an illegal state', () => {
  fc.assert(
    fc.property(steps, (plan) => void walk(plan, expectSane)),
    runs,
  );
});

it('has the same state when its events are folded again', () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const { state, log } = walk(plan, () => undefined);
      expect(fold(agentDecider, log)).toEqual(state);
    }),
    { numRuns: 300 },
  );
});

it('leaves every transition by its deadline, and can be deleted in every status', () => {
  fc.assert(
    fc.property(steps, (plan) => {
      walk(plan, (_, agent) => {
        const decide = (state: AgentState, command: AgentCommand) =>
          agentDecider.decide(command, state, NOON).reduce<AgentState>((after, event) => agentDecider.evolve(after, event), state);
        const overdue = decide(agent, { type: 'RecordFailure', kind: 'timeout', reason: 'late' });
        expect(overdue?.status).toBe(isInTransit(agent) ? 'error' : agent.status);
        if (agent.status === 'deleted') return;
        const gone = decide(decide(agent, { type: 'DeleteAgent', accountId: owner }), { type: 'RecordDeleted' });
        expect(gone?.status).toBe('deleted');
      });
    }),
    { numRuns: 300 },
  );
});

it('reaches every status in the random walks', () => {
  const seen = new Set<string>();
  for (const plan of fc.sample(steps, { numRuns: 600, seed: 7 })) walk(plan, (_, agent) => void seen.add(agent.status));
  expect([...seen].sort()).toEqual([...agentStatuses, 'deleted'].sort());
});
