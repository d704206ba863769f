import { agent, created, deadlineAt, deploying, imageResolved, later, requested, stateAfter } from '../../../../test/support/agents.ts';
import type { AgentEvent } from './agents.events.ts';
import { transitionDeadlines } from './deadlines.rules.ts';

describe('a deployment', () => {
  it('has its time from the moment at which it has a place, and a deadline of its own for the wait before', () => {
    const [waitsUntil, endsAt] = [later(3_600).toISOString(), later(4_000).toISOString()];
    const waits = { type: 'RecordDeploymentQueued', deploymentId: 'd1', deadlineAt: waitsUntil } as const;
    const queued: AgentEvent = { type: 'DeploymentQueued', data: { deployment_id: 'd1', deadline_at: waitsUntil } };
    const begun: AgentEvent = { type: 'DeploymentStarted', data: { deployment_id: 'd1', deadline_at: endsAt } };
    agent(...created, requested('d1', 1))
      .when(waits)
      .then(queued);
    // A service that takes the deployment over must not extend its wait.
    agent(...created, requested('d1', 1), queued)
      .when(waits)
      .then();
    agent(...created, requested('d1', 1), queued, begun)
      .when(waits)
      .then();
    expect(stateAfter(...created, requested('d1', 1), queued)).toMatchObject({ deadlineAt: waitsUntil, deployment: { status: 'queued' } });
    expect(stateAfter(...created, requested('d1', 1), queued, begun)).toMatchObject({
      deadlineAt: endsAt,
      deployment: { status: 'building' },
    });
    const old: AgentEvent = { type: 'DeploymentStarted', data: { deployment_id: 'd1' } };
    expect(stateAfter(...created, requested('d1', 1), old)).toMatchObject({ deadlineAt });
  });

  it('that has to wait for a place again after it had begun has a deadline for that wait, and its time anew', () => {
    const [firstEnd, waitsUntil, endsAt] = [later(900).toISOString(), later(4_500).toISOString(), later(3_000).toISOString()];
    const waits = { type: 'RecordDeploymentQueued', deploymentId: 'd1', deadlineAt: waitsUntil, again: true } as const;
    const begins = { type: 'RecordDeploymentStarted', deploymentId: 'd1', deadlineAt: endsAt } as const;
    const begun: AgentEvent = { type: 'DeploymentStarted', data: { deployment_id: 'd1', deadline_at: firstEnd } };
    const queued: AgentEvent = { type: 'DeploymentQueued', data: { deployment_id: 'd1', deadline_at: waitsUntil } };
    const begunAgain: AgentEvent = { type: 'DeploymentStarted', data: { deployment_id: 'd1', deadline_at: endsAt } };
    const building = [...created, requested('d1', 1), begun];
    agent(...building)
      .when(begins)
      .then();
    agent(...building)
      .when(waits)
      .then(queued);
    agent(...building, queued)
      .when(waits)
      .then();
    agent(...building, queued)
      .when(begins)
      .then(begunAgain);
    for (const record of [waits, begins])
      agent(...building, imageResolved('d1'))
        .when(record)
        .then();
    expect(stateAfter(...building, queued)).toMatchObject({
      deadlineAt: waitsUntil,
      deployment: { isWaiting: true, firstDeadlineAt: firstEnd },
    });
    expect(stateAfter(...building, queued, begunAgain)).toMatchObject({
      deadlineAt: endsAt,
      deployment: { status: 'building', isWaiting: false, firstDeadlineAt: firstEnd },
    });
  });

  it('that waits again and again ends at most one wait after its first deadline', () => {
    const deadlines = transitionDeadlines({ deployTimeoutSeconds: 900 });
    const first = later(900).toISOString();
    const latest = later(4_500).toISOString();
    expect(deadlines.deployWaitAgain(first)).toBe(latest);
    expect(deadlines.deployAgain(first, later(1_000))).toBe(later(1_900).toISOString());
    expect(deadlines.deployAgain(first, later(4_000))).toBe(latest);
  });

  it('runs its release command once, and its agent in the container after that', () => {
    const resolved = { ...imageResolved('d1'), data: { ...imageResolved('d1').data, release_command: ['migrate'] } } as AgentEvent;
    const releasing = [...created, requested('d1', 1), resolved];
    const begun: AgentEvent = { type: 'ReleaseCommandBegun', data: { deployment_id: 'd1', generation: 1 } };
    const done: AgentEvent = { type: 'ReleaseCommandSucceeded', data: { deployment_id: 'd1', generation: 2 } };
    const begins = { type: 'RecordReleaseBegun', deploymentId: 'd1', generation: 1 } as const;
    const ends = { type: 'RecordReleaseSucceeded', deploymentId: 'd1', generation: 1 } as const;
    agent(...releasing)
      .when(ends)
      .then();
    agent(...releasing)
      .when(begins)
      .then(begun);
    for (const again of [[begun], [begun, done]])
      agent(...releasing, ...again)
        .when(begins)
        .then();
    agent(...releasing, begun)
      .when(ends)
      .then(done);
    agent(...deploying)
      .when(begins)
      .then();
    expect(stateAfter(...releasing, begun, done)).toMatchObject({ generation: 2, deployment: { releaseCommand: null } });
    agent(...releasing, begun)
      .when({ type: 'RecordDeploymentFailure', deploymentId: 'd1', kind: 'deployment', reason: 'no' })
      .then({ type: 'DeploymentFailed', data: { deployment_id: 'd1', step: 'release', kind: 'deployment', reason: 'no' } });
  });
});
