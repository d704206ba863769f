import {
  accountId,
  startedAt,
  settings,
  provisioned,
  requested,
  imageResolved,
  succeeded,
  stopRequested,
  created,
  deploying,
  active,
  stopping,
  stopped,
  fallingAsleep,
  sleeping,
  waking,
  starting,
  restarting,
  failedDeployment,
  crashed,
  deleting,
  deleted,
  everyStatus,
  agent,
  stateAfter,
  ask,
  sleep,
  wake,
  deploy,
} from '../../../test/support/agents.ts';
import { NOON, refusalOf } from '../../../test/support/decider-spec.ts';
import { desiredState } from './agent-state.decider.ts';
import { agentDecider, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

test.each(Object.entries(everyStatus))('the events lead to %s', (status, events) => {
  expect(stateAfter(...events).status).toBe(status);
});

describe('creating', () => {
  const provision: AgentCommand = { type: 'ProvisionAgent', accountId, externalId: 'user-7', settings };

  it('writes the first event, and happens once', () => {
    agent().when(provision).then(provisioned);
    agent(...created)
      .when(provision)
      .then();
    agent(...deleted)
      .when(provision)
      .then();
  });
});

describe('permission', () => {
  const commands: AgentCommand[] = [
    { type: 'ConfigureAgent', accountId, changes: { name: 'x' } },
    deploy('d9'),
    ask('StartAgent'),
    ask('StopAgent'),
    ask('RestartAgent'),
    sleep('frozen'),
    wake,
    { type: 'DeleteAgent', accountId },
  ];

  it.each(commands)('$type: the refusal is the same for another account, an unknown agent and a deleted one', (command) => {
    const stranger = { ...command, accountId: 'account-2' } as AgentCommand;
    const answers = [
      refusalOf(() => agentDecider.decide(stranger, stateAfter(...active), NOON)),
      refusalOf(() => agentDecider.decide(command, null, NOON)),
      refusalOf(() => agentDecider.decide(command, stateAfter(...deleted), NOON)),
    ].map((refusal) => ({ code: refusal?.code, message: refusal?.message, facts: refusal?.facts }));
    expect(answers[0]?.code).toBe('agent_not_found');
    expect(answers).toEqual([answers[0], answers[0], answers[0]]);
  });

  it.each(commands.slice(0, -1))('$type: an agent that is being deleted accepts no further command', (command) => {
    agent(...deleting)
      .when(command)
      .refuses('agent_not_found');
  });
});

describe('configuring', () => {
  it('records only the settings that changed', () => {
    agent(...active)
      .when({ type: 'ConfigureAgent', accountId, changes: { name: 'new', serverless: true, idle_ttl_seconds: 0 } })
      .then({ type: 'AgentConfigured', data: { changes: { name: 'new', idle_ttl_seconds: 0 } } });
    agent(...active)
      .when({ type: 'ConfigureAgent', accountId, changes: { name: 'helper' } })
      .then();
    expect(stateAfter(...active, { type: 'AgentConfigured', data: { changes: { name: 'new' } } }).settings).toEqual({
      ...settings,
      name: 'new',
    });
  });
});

describe('deploying', () => {
  it.each(Object.entries(everyStatus).filter(([status]) => status !== 'deploying'))('is allowed from %s', (_, events) => {
    const { generation } = stateAfter(...events);
    agent(...events)
      .when(deploy('d2'))
      .then(requested('d2', generation + 1));
  });

  it('happens once per deployment id, even after that deployment has ended', () => {
    agent(...deploying)
      .when(deploy('d1'))
      .then();
    agent(...active)
      .when(deploy('d1'))
      .then();
    agent(...failedDeployment)
      .when(deploy('d1'))
      .then();
  });

  it('is refused while another runs', () => {
    agent(...deploying)
      .when(deploy('d2'))
      .refuses('deploy_in_progress');
  });

  it('goes from queued through its steps to active', () => {
    agent(...created, requested('d1', 1))
      .when({ type: 'RecordDeploymentStarted', deploymentId: 'd1' })
      .then({ type: 'DeploymentStarted', data: { deployment_id: 'd1' } });
    agent(...created, requested('d1', 1))
      .when({ type: 'RecordImage', deploymentId: 'd1', image: 'nginx@sha256:1', imageName: 'nginx:1', command: ['nginx'], commitSha: null })
      .then(imageResolved('d1'));
    agent(...deploying)
      .when({ type: 'RecordContainerCreated', deploymentId: 'd1', generation: 1 })
      .then({ type: 'ContainerCreated', data: { deployment_id: 'd1', generation: 1 } });
    agent(...deploying)
      .when({ type: 'RecordReady', generation: 1 })
      .then(succeeded('d1'));
    expect(stateAfter(...active)).toMatchObject({
      status: 'active',
      release: { deploymentId: 'd1', image: 'nginx@sha256:1', command: ['nginx'], templateId: null },
      candidate: null,
      deployment: { id: 'd1', status: 'success' },
      activeSince: startedAt,
    });
  });

  it('does not succeed before its image is resolved, nor by a container of another generation', () => {
    agent(...created, requested('d1', 1))
      .when({ type: 'RecordReady', generation: 1 })
      .then();
    agent(...deploying)
      .when({ type: 'RecordReady', generation: 0 })
      .then();
  });

  it('ignores records of another deployment, repeated steps, and records after its end', () => {
    agent(...deploying)
      .when({ type: 'RecordDeploymentFailure', deploymentId: 'd0', kind: 'deployment', reason: 'y' })
      .then();
    agent(...deploying)
      .when({ type: 'RecordDeploymentStarted', deploymentId: 'd1' })
      .then();
    agent(...deploying)
      .when({ type: 'RecordImage', deploymentId: 'd1', image: 'i', imageName: 'i', command: [], commitSha: null })
      .then();
    agent(...active)
      .when({ type: 'RecordContainerCreated', deploymentId: 'd1', generation: 1 })
      .then();
    agent(...active)
      .when({ type: 'RecordDeploymentFailure', deploymentId: 'd1', kind: 'deployment', reason: 'y' })
      .then();
  });

  it('puts the agent in error when it fails, says why, and keeps the earlier release', () => {
    const failed: AgentEvent = {
      type: 'DeploymentFailed',
      data: { deployment_id: 'd2', step: 'image', kind: 'deployment', reason: 'no Dockerfile' },
    };
    agent(...active, requested('d2', 2))
      .when({ type: 'RecordDeploymentFailure', deploymentId: 'd2', kind: 'deployment', reason: 'no Dockerfile' })
      .then(failed);
    expect(stateAfter(...active, requested('d2', 2), failed)).toMatchObject({
      status: 'error',
      message: 'Deployment failed at image: no Dockerfile',
      deployment: { status: 'failed' },
      release: { deploymentId: 'd1' },
      deadlineAt: null,
    });
  });

  it('fails when its deadline has passed', () => {
    agent(...deploying)
      .when({ type: 'RecordFailure', kind: 'timeout', reason: 'not done in time' })
      .then({ type: 'DeploymentFailed', data: { deployment_id: 'd1', step: 'container', kind: 'timeout', reason: 'not done in time' } });
  });

  it('makes its container stale, however healthy, when it fails or is canceled', () => {
    const canceled: AgentEvent[] = [
      ...active,
      requested('d2', 2),
      { type: 'DeploymentCanceled', data: { deployment_id: 'd2', reason: 'the agent was stopped' } },
      stopRequested,
      { type: 'AgentFailed', data: { during: 'stopping', kind: 'timeout', reason: 'the engine hangs' } },
    ];
    agent(...canceled)
      .when({ type: 'RecordReady', generation: 2 })
      .then();
    expect(stateAfter(...canceled).generation).toBeGreaterThan(2);
    expect(stateAfter(...failedDeployment).generation).toBeGreaterThan(1);
  });
});

describe('deleting', () => {
  it.each(Object.entries(everyStatus).filter(([status]) => status !== 'deploying'))('is allowed from %s', (_, events) => {
    agent(...events)
      .when({ type: 'DeleteAgent', accountId })
      .then({ type: 'AgentDeletionRequested', data: {} });
  });

  it('cancels a deployment in progress', () => {
    agent(...deploying)
      .when({ type: 'DeleteAgent', accountId })
      .then(
        { type: 'DeploymentCanceled', data: { deployment_id: 'd1', reason: 'the agent was deleted' } },
        { type: 'AgentDeletionRequested', data: {} },
      );
  });

  it('joins a deletion in progress, and is final', () => {
    agent(...deleting)
      .when({ type: 'DeleteAgent', accountId })
      .then();
    agent(...deleting)
      .when({ type: 'RecordDeleted' })
      .then({ type: 'AgentDeleted', data: {} });
    agent(...deleted)
      .when({ type: 'RecordDeleted' })
      .then();
    agent(...active)
      .when({ type: 'RecordDeleted' })
      .then();
  });
});

describe('the desired state', () => {
  it.each([
    ['created', 'none', created],
    ['deploying', 'running', deploying],
    ['active', 'running', active],
    ['starting', 'running', starting],
    ['restarting', 'running', restarting],
    ['waking', 'running', waking],
    ['error', 'running', crashed],
    ['stopping', 'stopped', stopping],
    ['stopped', 'stopped', stopped],
    ['stopping, to sleep', 'sleeping', fallingAsleep],
    ['sleeping', 'sleeping', sleeping],
    ['deleting', 'deleted', deleting],
    ['deleted', 'deleted', deleted],
  ] as const)('%s → %s', (_, desired, events) => {
    expect(desiredState(stateAfter(...events))).toBe(desired);
  });
});
