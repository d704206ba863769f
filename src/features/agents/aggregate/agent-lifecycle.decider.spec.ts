import {
  deadlineAt,
  startedAt,
  succeeded,
  later,
  stopRequested,
  sleepRequested,
  slept,
  wakeRequested,
  exited,
  created,
  deploying,
  deployingPatiently,
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
  everyStatus,
  agent,
  stateAfter,
  ask,
  sleep,
  wake,
  exit,
} from '../../../../test/support/agents.ts';
import { CRASHES_MAX } from '../../../sandboxes/lifecycle/crashes.rules.ts';
import { agentDecider, type AgentCommand } from './agents.decider.ts';
import type { AgentEvent } from './agents.events.ts';

describe('starting', () => {
  it.each(['active', 'starting', 'restarting', 'waking', 'deploying'] as const)('changes nothing when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(ask('StartAgent'))
      .then();
  });

  it.each(['stopped', 'stopping', 'error'] as const)('creates a new container when it is %s', (status) => {
    const { generation } = stateAfter(...everyStatus[status]);
    agent(...everyStatus[status])
      .when(ask('StartAgent'))
      .then({ type: 'AgentStartRequested', data: { generation: generation + 1, deadline_at: deadlineAt } });
  });

  it('is a wake if the agent sleeps or is going to sleep, so that its memory is kept', () => {
    agent(...sleeping)
      .when(ask('StartAgent'))
      .then(wakeRequested('start'));
    agent(...fallingAsleep)
      .when(ask('StartAgent'))
      .then(wakeRequested('start'));
  });

  it('requires a successful deployment', () => {
    agent(...created)
      .when(ask('StartAgent'))
      .refuses('invalid_state');
    agent(...failedDeployment)
      .when(ask('StartAgent'))
      .refuses('invalid_state');
  });

  it('ends when the container of that generation is ready', () => {
    agent(...starting)
      .when({ type: 'RecordReady', generation: 1 })
      .then();
    agent(...starting)
      .when({ type: 'RecordReady', generation: 2 })
      .then({ type: 'AgentStarted', data: { generation: 2, started_at: startedAt } });
  });
});

describe('stopping', () => {
  it.each(['created', 'stopped', 'stopping'] as const)('changes nothing when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(ask('StopAgent'))
      .then();
  });

  it.each(['active', 'starting', 'restarting', 'waking', 'sleeping', 'error'] as const)('is allowed when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(ask('StopAgent'))
      .then(stopRequested);
  });

  it('overrides a sleep in progress', () => {
    agent(...fallingAsleep)
      .when(ask('StopAgent'))
      .then(stopRequested);
    agent(...fallingAsleep, stopRequested)
      .when({ type: 'RecordSlept', depth: 'frozen' })
      .then();
    agent(...fallingAsleep, stopRequested)
      .when({ type: 'RecordStopped' })
      .then({ type: 'AgentStopped', data: {} });
  });

  it('cancels a deployment in progress', () => {
    agent(...deploying)
      .when(ask('StopAgent'))
      .then({ type: 'DeploymentCanceled', data: { deployment_id: 'd1', reason: 'the agent was stopped' } }, stopRequested);
  });

  it('ends when no container runs', () => {
    agent(...stopping)
      .when({ type: 'RecordStopped' })
      .then({ type: 'AgentStopped', data: {} });
    agent(...stopped)
      .when({ type: 'RecordStopped' })
      .then();
    agent(...active)
      .when({ type: 'RecordStopped' })
      .then();
  });
});

describe('the deadline of a release with a start timeout of its own', () => {
  const long = [...deployingPatiently, succeeded('d1')];
  const stoppedLong: AgentEvent[] = [...long, stopRequested, { type: 'AgentStopped', data: {} }];
  /** The installation's start timeout is one second in these examples. */
  const short = { startTimeoutSeconds: 1 };

  it.each<[string, AgentEvent[], AgentCommand, AgentEvent]>([
    [
      'a start',
      stoppedLong,
      ask('StartAgent'),
      { type: 'AgentStartRequested', data: { generation: 2, deadline_at: later(230).toISOString() } },
    ],
    [
      'a restart',
      long,
      ask('RestartAgent'),
      { type: 'AgentRestartRequested', data: { generation: 2, deadline_at: later(350).toISOString() } },
    ],
    [
      'a wake',
      [...long, sleepRequested('frozen'), slept('frozen')],
      wake,
      { type: 'AgentWakeRequested', data: { trigger: 'chat', deadline_at: later(230).toISOString() } },
    ],
  ])('of %s follows it, whatever the installation has', (_, events, command, event) => {
    agent(...events)
      .when({ ...command, ...short })
      .then(event);
  });

  it('of the replacement of a crashed container follows it', () => {
    const restart = { generation: 2, at: startedAt, deadline_at: later(350).toISOString() };
    const { data } = exited(1, 1, restart) as Extract<AgentEvent, { type: 'ContainerExited' }>;
    agent(...long)
      .when({ ...exit(1), ...short })
      .then({ type: 'ContainerExited', data: { ...data, restart } });
  });
});

describe('restarting', () => {
  it.each(['active', 'starting', 'stopping', 'stopped', 'sleeping', 'waking', 'error'] as const)(
    'creates a new container when it is %s',
    (status) => {
      const { generation } = stateAfter(...everyStatus[status]);
      agent(...everyStatus[status])
        .when(ask('RestartAgent'))
        .then({ type: 'AgentRestartRequested', data: { generation: generation + 1, deadline_at: deadlineAt } });
    },
  );

  it('changes nothing while a restart runs, but shortens the wait after a crash', () => {
    agent(...restarting)
      .when(ask('RestartAgent'))
      .then();
    const waiting = [...active, exited(2, 1, { generation: 2, at: '2026-03-01T12:00:02.000Z' })];
    agent(...waiting)
      .when(ask('RestartAgent'))
      .then({ type: 'AgentRestartRequested', data: { generation: 3, deadline_at: deadlineAt } });
  });

  it('is refused during a deployment and before the first success', () => {
    agent(...deploying)
      .when(ask('RestartAgent'))
      .refuses('deploy_in_progress');
    agent(...created)
      .when(ask('RestartAgent'))
      .refuses('invalid_state');
  });
});

describe('sleeping and waking', () => {
  it.each(['active', 'starting', 'restarting', 'waking'] as const)('can be put to sleep when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(sleep('frozen'))
      .then(sleepRequested('frozen'));
  });

  it('falls asleep once, however often that is requested', () => {
    agent(...fallingAsleep)
      .when(sleep('frozen'))
      .then();
    agent(...sleeping)
      .when(sleep('frozen'))
      .then();
    agent(...fallingAsleep)
      .when({ type: 'RecordSlept', depth: 'frozen' })
      .then(slept('frozen'));
    agent(...sleeping)
      .when({ type: 'RecordSlept', depth: 'frozen' })
      .then();
  });

  it.each(['created', 'stopping', 'stopped', 'error'] as const)('can not be put to sleep when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(sleep('frozen'))
      .refuses('invalid_state');
  });

  it('is not put to sleep during a deployment', () => {
    agent(...deploying)
      .when(sleep('frozen'))
      .refuses('deploy_in_progress');
  });

  it('goes into a deeper sleep without waking', () => {
    agent(...sleeping)
      .when(sleep('stopped'))
      .then(sleepRequested('stopped'));
    const deeper = [...sleeping, sleepRequested('stopped')];
    expect(stateAfter(...deeper)).toMatchObject({ status: 'sleeping', wantedSleep: 'stopped', sleepDepth: 'frozen', deadlineAt: null });
    agent(...deeper)
      .when(sleep('stopped'))
      .then();
    const deep = [...deeper, { type: 'AgentSlept', data: { depth: 'stopped', slept_at: later(900).toISOString() } } as AgentEvent];
    agent(...deeper)
      .when({ type: 'RecordSlept', depth: 'stopped' }, later(900))
      .then(deep.at(-1) as AgentEvent);
    expect(stateAfter(...deep)).toMatchObject({ sleepDepth: 'stopped', sleptAt: startedAt });
  });

  it('wakes once when it sleeps or is going to sleep', () => {
    agent(...sleeping)
      .when(wake)
      .then(wakeRequested('chat'));
    agent(...fallingAsleep)
      .when(wake)
      .then(wakeRequested('chat'));
    agent(...waking)
      .when(wake)
      .then();
    agent(...active)
      .when(wake)
      .then();
    agent(...restarting)
      .when(wake)
      .then();
  });

  it.each(['created', 'deploying', 'stopping', 'stopped', 'error'] as const)('does not wake when it is %s', (status) => {
    agent(...everyStatus[status])
      .when(wake)
      .refuses('agent_unavailable');
  });

  it('is awake when its container is ready, and records how deep it slept', () => {
    agent(...waking)
      .when({ type: 'RecordReady', generation: 1 })
      .then({ type: 'AgentWoke', data: { after: 'frozen', started_at: startedAt } });
    agent(...sleeping, slept('stopped'), wakeRequested('chat'))
      .when({ type: 'RecordReady', generation: 1 })
      .then({ type: 'AgentWoke', data: { after: 'stopped', started_at: startedAt } });
  });
});

describe('containers that exit', () => {
  it('are replaced immediately, then after 2, 4 and 8 s, and then not any more', () => {
    const events = [...active];
    const waits: (number | null)[] = [];
    for (let crash = 1; crash <= CRASHES_MAX; crash += 1) {
      const [event] = agentDecider.decide(exit(stateAfter(...events).generation), stateAfter(...events), later(10));
      if (event?.type !== 'ContainerExited') throw new Error('no end was recorded');
      waits.push(event.data.restart === null ? null : (Date.parse(event.data.restart.at) - later(10).getTime()) / 1000);
      events.push(event);
    }
    expect(waits).toEqual([0, 2, 4, 8, null]);
    expect(stateAfter(...events)).toMatchObject({ status: 'error', failure: 'crash', crashes: CRASHES_MAX });
  });

  it('count as the first crash again after 10 steady minutes', () => {
    const twice = [...active, exited(2, 1, { generation: 2, at: startedAt })];
    const up: AgentEvent[] = [...twice, { type: 'AgentStarted', data: { generation: 2, started_at: startedAt } }];
    const crashes = (now: Date) => (agentDecider.decide(exit(2), stateAfter(...up), now)[0] as { data: { crashes: number } }).data.crashes;
    expect([crashes(later(599)), crashes(later(600))]).toEqual([3, 1]);
  });

  it('do not count as steady before they were ready, however long the previous one ran', () => {
    const once = [...active, exited(1, 1, { generation: 2, at: startedAt })];
    const [event] = agentDecider.decide(exit(2), stateAfter(...once), later(86_400));
    expect(event).toMatchObject({ type: 'ContainerExited', data: { crashes: 2 } });
  });

  it('have not crashed if the exit was requested, or if they are of an old generation', () => {
    for (const events of [stopping, stopped, sleeping, deploying, crashed, deleting])
      agent(...events)
        .when(exit(stateAfter(...events).generation))
        .then();
    agent(...restarting)
      .when(exit(1))
      .then();
  });

  it('set a message that explains what happened', () => {
    expect(stateAfter(...active, exited(1, 1, { generation: 2, at: startedAt })).message).toBe(
      'Ended (exit code 1); being started again, attempt 1 of 4.',
    );
    expect(stateAfter(...crashed).message).toBe('Keeps crashing (exit code 1), 5 times in a row.');
  });
});

describe('error', () => {
  it.each(['starting', 'stopping', 'restarting', 'waking'] as const)('follows when the deadline of %s has passed', (status) => {
    agent(...everyStatus[status])
      .when({ type: 'RecordFailure', kind: 'timeout', reason: 'too late' })
      .then({ type: 'AgentFailed', data: { during: status, kind: 'timeout', reason: 'too late' } });
  });

  it.each(['created', 'active', 'stopped', 'sleeping', 'error'] as const)('does not follow from %s, which has no deadline', (status) => {
    agent(...everyStatus[status])
      .when({ type: 'RecordFailure', kind: 'timeout', reason: 'too late' })
      .then();
  });

  it.each(['active', 'starting', 'restarting', 'waking', 'sleeping'] as const)('follows when the volume is too full, from %s', (status) => {
    const failed: AgentEvent = { type: 'AgentFailed', data: { during: status, kind: 'volume', reason: 'full' } };
    agent(...everyStatus[status])
      .when({ type: 'RecordVolumeFull', reason: 'full' })
      .then(failed);
    const full = [...everyStatus[status], failed];
    expect(stateAfter(...full)).toMatchObject({ status: 'error', failure: 'volume', message: 'full', sleepDepth: null });
    agent(...full)
      .when({ type: 'RecordVolumeFull', reason: 'full' })
      .then();
    agent(...full)
      .when({ type: 'RecordReady', generation: stateAfter(...full).generation })
      .then();
  });

  it('of a deployment follows when the volume is too full', () => {
    agent(...deploying)
      .when({ type: 'RecordVolumeFull', reason: 'full' })
      .then({ type: 'DeploymentFailed', data: { deployment_id: 'd1', step: 'container', kind: 'deployment', reason: 'full' } });
  });

  it.each(['created', 'stopped', 'stopping'] as const)('does not follow from %s, in which nothing is written', (status) => {
    agent(...everyStatus[status])
      .when({ type: 'RecordVolumeFull', reason: 'full' })
      .then();
  });

  it('ends when the container is healthy again, but not after a failed deployment', () => {
    const late: AgentEvent[] = [...starting, { type: 'AgentFailed', data: { during: 'starting', kind: 'timeout', reason: 'late' } }];
    agent(...late)
      .when({ type: 'RecordReady', generation: 2 })
      .then({ type: 'AgentStarted', data: { generation: 2, started_at: startedAt } });
    const failed = stateAfter(...failedDeployment);
    agent(...failedDeployment)
      .when({ type: 'RecordReady', generation: failed.generation })
      .then();
  });
});
