import fc from 'fast-check';

import type { Agent, AgentState } from '../../src/features/agents/aggregate/agent-state.rules.ts';
import { agentDecider, type AgentCommand } from '../../src/features/agents/aggregate/agents.decider.ts';
import type { AgentEvent } from '../../src/features/agents/aggregate/agents.events.ts';
import { settings } from './agents.ts';
import { plansOf, walkDecider, type Step } from './walk-decider.ts';

/** Generates random lives of agents: any commands of people and of the saga, in any order, while the clock moves. */

export const owner = 'account-1';
const deadlineAt = '2026-03-02T00:00:00.000Z';

// The owner is chosen most of the time, because another account's commands change nothing.
const accountId = fc.oneof({ weight: 9, arbitrary: fc.constant(owner) }, { weight: 1, arbitrary: fc.constant('account-2') });
const deploymentId = fc.integer({ min: 1, max: 4 }).map((number) => `d${number}`);
const generation = fc.integer({ min: 0, max: 12 });
const depth = fc.constantFrom('frozen' as const, 'stopped' as const);
const startTimeoutSeconds = fc.integer({ min: 1, max: 3_600 });
const timed = <Type extends string>(type: Type) => fc.record({ type: fc.constant(type), accountId, deadlineAt: fc.constant(deadlineAt) });
const starting = <Type extends string>(type: Type) => fc.record({ type: fc.constant(type), accountId, startTimeoutSeconds });

const asked: fc.Arbitrary<AgentCommand> = fc.oneof(
  fc.record({
    type: fc.constant('ConfigureAgent' as const),
    accountId,
    changes: fc.record({ name: fc.string(), port: fc.option(fc.nat()) }),
  }),
  fc.record({
    type: fc.constant('DeployAgent' as const),
    accountId,
    deadlineAt: fc.constant(deadlineAt),
    deploymentId,
    source: fc.constant('docker' as const),
    imageName: fc.constant('nginx:1'),
    repoUrl: fc.constant(null),
    branch: fc.constant(null),
    templateId: fc.constant(null),
  }),
  starting('StartAgent' as const),
  timed('StopAgent' as const),
  starting('RestartAgent' as const),
  fc.record({
    type: fc.constant('SleepAgent' as const),
    accountId,
    deadlineAt: fc.constant(deadlineAt),
    depth,
    reason: fc.constantFrom('requested' as const, 'idle' as const, 'deep' as const),
  }),
  fc.record({ type: fc.constant('WakeAgent' as const), accountId, startTimeoutSeconds, trigger: fc.constant('chat') }),
);

const recorded: fc.Arbitrary<AgentCommand> = fc.oneof(
  fc.record({
    type: fc.constantFrom('RecordDeploymentStarted' as const, 'RecordDeploymentQueued' as const),
    deploymentId,
    deadlineAt: fc.constant(deadlineAt),
  }),
  fc.record({
    type: fc.constant('RecordImage' as const),
    deploymentId,
    image: fc.constant('nginx@sha256:1'),
    imageName: fc.constant('nginx:1'),
    command: fc.constant<string[]>(['nginx']),
    commitSha: fc.constant(null),
    startTimeoutSeconds: fc.option(startTimeoutSeconds),
    // Most images come without one.
    releaseCommand: fc.constantFrom<string[] | null>(null, null, null, ['migrate']),
    run: fc.option(fc.record({ port: fc.integer({ min: 1, max: 65_535 }) })),
  }),
  fc.record({
    type: fc.constantFrom('RecordContainerCreated' as const, 'RecordReleaseBegun' as const, 'RecordReleaseSucceeded' as const),
    deploymentId,
    generation,
  }),
  fc.record({
    type: fc.constant('RecordDeploymentFailure' as const),
    deploymentId,
    kind: fc.constant('deployment' as const),
    reason: fc.constant('no'),
  }),
  fc.record({ type: fc.constant('RecordReady' as const), generation }),
  fc.constant({ type: 'RecordStopped' as const }),
  fc.record({ type: fc.constant('RecordSlept' as const), depth }),
  fc.record({
    type: fc.constant('RecordExit' as const),
    generation,
    exitCode: fc.constant(1),
    oom: fc.boolean(),
    cause: fc.constantFrom('exited' as const, 'removed' as const),
    startTimeoutSeconds,
  }),
  fc.record({
    type: fc.constant('RecordFailure' as const),
    kind: fc.constantFrom('timeout' as const, 'runtime' as const),
    reason: fc.constant('late'),
  }),
);

const deletion: fc.Arbitrary<AgentCommand> = fc.oneof(
  fc.record({ type: fc.constant('DeleteAgent' as const), accountId }),
  fc.constant({ type: 'RecordDeleted' as const }),
);

export const steps = plansOf<AgentCommand>({ asked, recorded, deletion });

/** Directs the command at the agent's current deployment and generation. */
function aim(command: AgentCommand, agent: Agent): AgentCommand {
  const aimed = { ...command } as { deploymentId?: string; generation?: number } & AgentCommand;
  if (aimed.type.startsWith('Record') && aimed.deploymentId !== undefined && agent.deployment) aimed.deploymentId = agent.deployment.id;
  if (aimed.generation !== undefined) aimed.generation = agent.generation;
  return aimed;
}

const create: AgentCommand = { type: 'ProvisionAgent', accountId: owner, externalId: null, settings };

/** Runs the plan from an agent's creation on. See `walkDecider`. */
export function walk(
  plan: Step<AgentCommand>[],
  see: (before: Agent, after: Agent, events: AgentEvent[], at: Date) => void,
): { state: AgentState; log: AgentEvent[] } {
  return walkDecider<Agent, AgentCommand, AgentEvent>({ decider: agentDecider, create, aim }, plan, see);
}
