import fc from 'fast-check';

import { owner, steps, walk } from '../../../../test/support/agent-arbitraries.ts';
import { fold, NOON } from '../../../../test/support/decider-spec.ts';
import { agentStatuses, isInTransit, type Agent, type AgentState } from './agent-state.rules.ts';
import { agentDecider, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

/**
 * Checks that an agent is never in an inconsistent state, whatever callers request and the saga records, in any order, while the clock
 * moves.
 */

/** Looks at each step of long walks, so the rules are compared without `expect`, which takes far longer than the step itself. */
function expectSane(before: Agent, agent: Agent, events: AgentEvent[]): void {
  const { status, deployment, candidate } = agent;
  const isDeploymentOpen = deployment !== null && ['queued', 'building', 'starting'].includes(deployment.status);
  const rules = {
    'has a status that is known': [...agentStatuses, 'deleted'].includes(status),
    'has a deadline while it is in transit, and only then': (agent.deadlineAt !== null) === isInTransit(agent),
    'has a time of its restart only while it restarts': agent.restartAt === null || status === 'restarting',
    'has a depth of sleep only while it sleeps or wakes': agent.sleepDepth === null || ['sleeping', 'waking'].includes(status),
    'has a depth and a time of sleep while it sleeps': status !== 'sleeping' || (agent.sleepDepth !== null && agent.sleptAt !== null),
    'has a wanted sleep only while it stops or sleeps': agent.wantedSleep === null || ['stopping', 'sleeping'].includes(status),
    'has the time since which it is active while it is, and only then': (agent.activeSince !== null) === (status === 'active'),
    'has a failure in an error, and only then': (agent.failure !== null) === (status === 'error'),
    'never goes back to an earlier generation': agent.generation >= before.generation,
    'has a release where it runs, and where it sleeps':
      !['active', 'starting', 'restarting', 'waking', 'sleeping'].includes(status) || agent.release !== null,
    'has an open deployment while it deploys, and only then': isDeploymentOpen === (status === 'deploying'),
    'has the candidate of its deployment': candidate === null || candidate.deploymentId === deployment?.id,
    'has a candidate only while it deploys': candidate === null || status === 'deploying',
    'has no events once it is deleted': before.status !== 'deleted' || events.length === 0,
    'goes on being deleted': before.status !== 'deleting' || ['deleting', 'deleted'].includes(status),
    'has a message': agent.message !== '',
  };
  const broken = Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [rule]));
  if (broken.length > 0) expect({ status, broken }).toEqual({ status, broken: [] });
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
