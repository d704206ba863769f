import {
  accountId,
  deadlineAt,
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
  restartTimes,
  sleep,
  wake,
  deploy,
} from '../../../../test/support/agents.ts';
import { NOON, refusalOf } from '../../../../test/support/decider-spec.ts';
import { desiredState } from './agent-state.rules.ts';
import { agentDecider, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent, AgentSettings } from './agents.events.ts';

/** The request of the deployment with that number from a repository; a rollback's request has the template of the one that comes back. */
const requestedFrom = (template: string | null, number: number): AgentEvent => {
  const { type, data } = requested(`d${number}`, number) as Extract<AgentEvent, { type: 'DeploymentRequested' }>;
  const repository = { source: 'github', image_name: null, repo_url: 'https://git.example/x', branch: 'main' } as const;
  return { type, data: { ...data, ...repository, template_id: template } };
};

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

  it('changes what the agent says of itself member by member, and null takes it back', () => {
    const configured = (changes: Partial<AgentSettings>): AgentEvent => ({ type: 'AgentConfigured', data: { changes } });
    agent(...active)
      .when({ type: 'ConfigureAgent', accountId, changes: { port: 3000, protocol: null } })
      .then(configured({ port: 3000 }));
    agent(...active, configured({ port: 3000, start: ['a'] }))
      .when({ type: 'ConfigureAgent', accountId, changes: { port: null, start: ['a'] } })
      .then(configured({ port: null }));
    const said = [configured({ port: 3000, cpus: 0.5 }), configured({ port: null })];
    expect(stateAfter(...active, ...said).settings).toEqual({ ...settings, port: null, cpus: 0.5 });
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
    const scripted: AgentEvent = { type: 'DeploymentScriptsBegun', data: { deployment_id: 'd1', generation: 1 } };
    const scriptsBegun = { type: 'RecordScriptsBegun', deploymentId: 'd1', generation: 1 } as const;
    agent(...deploying)
      .when(scriptsBegun)
      .then(scripted);
    agent(...deploying, scripted)
      .when(scriptsBegun)
      .then();
    agent(...deploying)
      .when({ type: 'RecordReady', generation: 1 })
      .then(succeeded('d1'));
    expect(stateAfter(...active)).toMatchObject({
      status: 'active',
      release: { deploymentId: 'd1', image: 'nginx@sha256:1', command: ['nginx'], templateId: null, startTimeoutSeconds: null, run: null },
      candidate: null,
      deployment: { id: 'd1', status: 'success' },
      activeSince: startedAt,
    });
  });

  it('has a release that keeps how its containers are run, whatever the agent says of itself later', () => {
    const image = { image: 'nginx@sha256:1', imageName: 'nginx:1', command: ['nginx'], commitSha: null };
    const run = { port: 3000, protocol: 'openai' } as const;
    const building = [...created, requested('d1', 1)];
    const resolved = { type: 'ImageResolved', data: { ...imageResolved('d1').data, run, start_timeout_seconds: 90 } } as AgentEvent;
    agent(...building)
      .when({ type: 'RecordImage', deploymentId: 'd1', ...image, run, startTimeoutSeconds: 90 })
      .then(resolved);
    const changed: AgentEvent = { type: 'AgentConfigured', data: { changes: { port: 4000 } } };
    const { release, settings: now } = stateAfter(...building, resolved, succeeded('d1'), changed);
    expect(release).toMatchObject({ run, startTimeoutSeconds: 90 });
    expect(now.port).toBe(4000);
  });

  it('of a repository runs the release as the template of the framework that was recognized', () => {
    const image = { image: 'sha256:1', imageName: 'mooring:project-1', command: ['node', 'serve.mjs'], commitSha: 'c1' };
    const record = { type: 'RecordImage', deploymentId: 'd1', ...image } as const;
    const data = { deployment_id: 'd1', image: 'sha256:1', image_name: 'mooring:project-1', command: image.command, commit_sha: 'c1' };
    const resolved: AgentEvent = { type: 'ImageResolved', data: { ...data, framework: 'langgraph' } };
    const building = [...created, requestedFrom(null, 1)];
    agent(...building)
      .when({ ...record, framework: 'langgraph' })
      .then(resolved);
    expect(stateAfter(...building, resolved).candidate?.templateId).toBe('langgraph');
    expect(stateAfter(...building, resolved, succeeded('d1')).release).toMatchObject({ deploymentId: 'd1', templateId: 'langgraph' });
    // A repository of no framework has none in its event, and none after an earlier deployment that had one.
    for (const framework of [null, undefined])
      agent(...building)
        .when({ ...record, framework })
        .then({ type: 'ImageResolved', data });
    const plain: AgentEvent = { type: 'ImageResolved', data: { ...data, deployment_id: 'd2' } };
    const changed = [...building, resolved, succeeded('d1'), requestedFrom(null, 2), plain, succeeded('d2')];
    expect(stateAfter(...changed).release).toMatchObject({ deploymentId: 'd2', templateId: null });
  });

  it('keeps the start timeout of its template with the release, and has none from a template without one', () => {
    const image = { image: 'nginx@sha256:1', imageName: 'nginx:1', command: ['nginx'], commitSha: null };
    const record = { type: 'RecordImage', deploymentId: 'd1', ...image } as const;
    const building = [...created, requestedFrom('openclaw', 1)];
    const { data } = imageResolved('d1') as Extract<AgentEvent, { type: 'ImageResolved' }>;
    const patient: AgentEvent = { type: 'ImageResolved', data: { ...data, start_timeout_seconds: 300 } };
    agent(...building)
      .when({ ...record, startTimeoutSeconds: 300 })
      .then(patient);
    expect(stateAfter(...building, patient, succeeded('d1')).release).toMatchObject({ startTimeoutSeconds: 300 });
    agent(...building)
      .when({ ...record, startTimeoutSeconds: null })
      .then(imageResolved('d1'));
  });

  it('that rolls back to a framework’s release runs it with that template again, without recognizing it again', () => {
    const data = { deployment_id: 'd2', image: 'sha256:1', image_name: 'mooring:project-1', command: ['node'], commit_sha: 'c1' };
    const resolved: AgentEvent = { type: 'ImageResolved', data };
    expect(stateAfter(...active, requestedFrom('langgraph', 2), resolved, succeeded('d2')).release).toMatchObject({
      deploymentId: 'd2',
      templateId: 'langgraph',
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

  it('is canceled by a caller: the agent returns to its release, or stops if it has none', () => {
    const cancel: AgentCommand = { type: 'CancelDeployment', accountId, deploymentId: 'd1', stopBy: deadlineAt, ...restartTimes };
    const canceled = (id: string): AgentEvent => ({
      type: 'DeploymentCanceled',
      data: { deployment_id: id, reason: 'a caller canceled it' },
    });
    agent(...deploying)
      .when(cancel)
      .then(canceled('d1'), stopRequested);
    agent(...active, requested('d2', 2))
      .when({ ...cancel, deploymentId: 'd2' })
      .then(canceled('d2'), {
        type: 'AgentRestartRequested',
        data: { generation: 4, deadline_at: deadlineAt },
      });
    agent(...deploying, canceled('d1'), stopRequested)
      .when(cancel)
      .then();
    agent(...active)
      .when(cancel)
      .refuses('invalid_state');
    agent(...deploying)
      .when({ ...cancel, deploymentId: 'd0' })
      .refuses('invalid_state');
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

  it('puts the agent in error when it fails, with the reason, and keeps the earlier release', () => {
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
