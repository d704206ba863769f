import fc from 'fast-check';

import type { Agent, AgentEvent } from '../../agents/index.ts';
import type { ContainerState, ContainerView, ListedContainer } from '../../../runtime/container.ts';
import * as given from '../../../../test/support/agents.ts';
import { NOON } from '../../../../test/support/decider-spec.ts';
import { differs } from '../../../sandboxes/reconciliation/differences.rules.ts';
import type { StepRules } from '../../../sandboxes/lifecycle/steps.rules.ts';
import { nextStep } from './next-step.rules.ts';

const agents = { nextStep, isBeingDeleted: ({ status }: Agent) => status === 'deleting' };
const rules: StepRules = { canFreeze: true, deepSleepAfterSeconds: 900, startTimeoutSeconds: 60 };
const nothing = { containers: [], volume: false };

function container(generation: number, state: ContainerState): ContainerView {
  const more = {
    exitCode: state === 'exited' ? 3 : null,
    oomKilled: false,
    startedAt: state === 'created' ? null : given.startedAt,
    finishedAt: null,
  };
  return { agentId: 'a1', generation, deploymentId: 'd1', handle: `a1-g${generation}`, state, ...more };
}

/** Returns a container as a list shows it. */
function asListed({ agentId, generation, deploymentId, handle, state: now }: ContainerView): ListedContainer {
  return { agentId, generation, deploymentId, handle, state: now };
}

const known = (...events: AgentEvent[]) => ({ sandbox: given.stateAfter(...events), lastActiveAt: NOON, held: false, abandonedBy: null });

const histories: AgentEvent[][] = [
  ...Object.values(given.everyStatus),
  given.fallingAsleep,
  given.failedDeployment,
  given.deleting,
  [...given.created, given.requested('d1', 1)],
  [...given.sleeping, given.sleepRequested('stopped', 'deep')],
  [...given.active, given.sleepRequested('stopped'), given.slept('stopped')],
  [...given.active, given.requested('d2', 2)],
  [...given.active, given.exited(3, 1, { generation: 2, at: given.later(4).toISOString() })],
  ...(['timeout', 'runtime', 'crash', 'deployment'] as const).map((kind): AgentEvent[] => [
    ...given.starting,
    { type: 'AgentFailed', data: { during: 'starting', kind, reason: 'no' } },
  ]),
];

const state = fc.constantFrom<ContainerState>('created', 'running', 'frozen', 'exited');

describe('what differs between the log and the engine', () => {
  it('is every agent for which a pass would do something, and no other', () => {
    const situation = fc.record({
      history: fc.constantFrom(...histories),
      containers: fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 3 }), state), { maxLength: 3, selector: ([generation]) => generation }),
      volume: fc.boolean(),
      held: fc.boolean(),
      canFreeze: fc.boolean(),
      usedSecondsAgo: fc.option(fc.integer({ min: 0, max: 2_000 })),
      after: fc.integer({ min: -400, max: 2_000 }),
    });
    fc.assert(
      fc.property(situation, ({ history, containers: pairs, volume, held, canFreeze, usedSecondsAgo, after }) => {
        const now = given.later(after);
        const lastActiveAt = usedSecondsAgo === null ? null : new Date(now.getTime() - usedSecondsAgo * 1000);
        const agent = given.stateAfter(...history);
        // A pass also sees what only an inspection tells.
        const containers = pairs.map(([generation, each]) => container(generation, each));
        const facts = { held, lastActiveAt, abandonedBy: null };
        const wanted = nextStep(agent, { containers, volume, started: null, ...facts }, { ...rules, canFreeze }, now);
        const listed = { containers: pairs.map(([generation, each]) => asListed(container(generation, each))), volume };
        expect(differs(agents, { sandbox: agent, ...facts }, listed, { ...rules, canFreeze }, now)).toBe(wanted.do !== 'rest');
      }),
      { numRuns: 3_000 },
    );
  });

  it('is no agent at rest, whether or not its container is there', () => {
    const atRest: [AgentEvent[], ContainerView[]][] = [
      [given.failedDeployment, []],
      [[...given.starting, { type: 'AgentFailed', data: { during: 'starting', kind: 'timeout', reason: 'no' } }], []],
      [given.stopped, [container(given.stateAfter(...given.stopped).generation, 'exited')]],
      [given.created, []],
      [given.active, [container(given.stateAfter(...given.active).generation, 'running')]],
      [given.sleeping, [container(given.stateAfter(...given.sleeping).generation, 'frozen')]],
    ];
    for (const [events, containers] of atRest)
      expect(differs(agents, known(...events), { containers, volume: true }, rules, NOON)).toBe(false);
  });

  it('is an agent whose container is gone, or that has one of an older generation', () => {
    expect(differs(agents, known(...given.active), nothing, rules, NOON)).toBe(true);
    const { generation } = given.stateAfter(...given.stopped);
    const left = { containers: [container(generation + 1, 'exited')], volume: true };
    expect(differs(agents, known(...given.stopped), left, rules, NOON)).toBe(true);
  });

  it('is only what is in transit if the engine is unavailable', () => {
    expect(differs(agents, known(...given.active), null, rules, NOON)).toBe(false);
    expect(differs(agents, known(...given.starting), null, rules, NOON)).toBe(true);
    expect(differs(agents, known(...given.deleting), null, rules, NOON)).toBe(true);
  });
});
