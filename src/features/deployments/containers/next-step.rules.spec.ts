import type { Agent, AgentEvent } from '../../agents/index.ts';
import type { ContainerView } from '../../../runtime/container.ts';
import * as given from '../../../../test/support/agents.ts';
import { NOON } from '../../../../test/support/decider-spec.ts';
import { actualAfter, type ActualState, type StepRules } from '../../../sandboxes/lifecycle/steps.rules.ts';
import { nextCheckAt, nextStep, wantedRelease, type OwnStep, type Step } from './next-step.rules.ts';

const container = (generation: number, state: ContainerView['state'], more: Partial<ContainerView> = {}): ContainerView => ({
  agentId: 'a1',
  generation,
  deploymentId: 'd1',
  handle: `a1-g${generation}`,
  state,
  exitCode: state === 'exited' ? 3 : null,
  oomKilled: false,
  startedAt: state === 'created' ? null : given.startedAt,
  finishedAt: null,
  ...more,
});

const there = (containers: ContainerView[], more: Partial<ActualState> = {}): ActualState => ({
  containers,
  volume: true,
  held: false,
  abandonedBy: null,
  lastActiveAt: null,
  started: null,
  ...more,
});
const nothing = there([], { volume: false });
const bare = there([]);
const one = (state: ContainerView['state'], generation = 1, more: Partial<ActualState> = {}) => there([container(generation, state)], more);

const notBegun = (generation = 1, more: Partial<ActualState> = {}) =>
  there([container(generation, 'exited', { exitCode: 125, notBegun: true })], more);

const outdated = (state: ContainerView['state']) => there([container(1, state, { outdated: true })]);

interface Terms {
  now: Date;
  rules: StepRules;
}
const at = (seconds: number, more: Partial<StepRules> = {}): Terms => ({
  now: given.later(seconds),
  rules: { canFreeze: true, deepSleepAfterSeconds: 900, startTimeoutSeconds: 60, ...more },
});
const terms = (more: Partial<StepRules> = {}) => at(0, more);
/** The deadline of every transition in these examples. */
const overdue = at(300);

/** Describes a step in a few words; a rest includes the time of the next look. */
function told(agent: Agent, actual: ActualState, { now, rules }: Terms): string {
  const step = nextStep(agent, actual, rules, now);
  if (step.do === 'create') return `create from ${wantedRelease(agent)?.image}`;
  if (step.do !== 'rest') return words(step);
  const again = nextCheckAt(agent, actual, rules, now);
  return again === null ? 'rest' : `rest ${(again.getTime() - NOON.getTime()) / 1000}`;
}

function words(step: Step): string {
  switch (step.do) {
    case 'own': {
      const { own } = step;
      return ('container' in own ? `${own.do} g${own.container.generation}` : own.do) + alongside(own);
    }
    case 'record': {
      const { record } = step;
      const more = 'kind' in record ? record.kind : 'depth' in record ? record.depth : '';
      return `${record.type} ${'cause' in record ? record.cause : more}`.trim();
    }
    case 'order':
      return `order ${step.order}`;
    case 'await_ready': {
      const { otherwise } = step;
      return `ready g${step.container.generation} in ${step.withinMs}, else ${otherwise === null ? 'rest' : words({ do: 'record', record: otherwise })}`;
    }
    case 'remove':
      return `remove g${step.container.generation}${step.gently ? '' : ' at once'}`;
    default:
      return ('container' in step ? `${step.do} g${step.container.generation}` : step.do) + alongside(step);
  }
}

function alongside(step: Step | OwnStep): string {
  return 'meanwhile' in step && step.meanwhile !== undefined ? `, ${step.meanwhile.type} meanwhile` : '';
}

type Row = [situation: string, agent: Agent, actual: ActualState, terms: Terms, step: string];
const state = given.stateAfter;
const { deploying, active, stopping, stopped, fallingAsleep, sleeping, waking, starting, restarting } = given;

const queued = state(...given.created, given.requested('d1', 1));
const waiting = state(...given.created, given.requested('d1', 1), {
  type: 'DeploymentQueued',
  data: { deployment_id: 'd1', deadline_at: given.later(3_600).toISOString() },
});
const waitingAgain = state(
  ...given.created,
  given.requested('d1', 1),
  { type: 'DeploymentStarted', data: { deployment_id: 'd1' } },
  { type: 'DeploymentQueued', data: { deployment_id: 'd1', deadline_at: given.later(3_600).toISOString() } },
);
const building = state(...given.created, given.requested('d1', 1), { type: 'DeploymentStarted', data: { deployment_id: 'd1' } });
const imageThere = state(...deploying);
const made = state(...deploying, { type: 'ContainerCreated', data: { deployment_id: 'd1', generation: 1 } });
const patient = state(...given.deployingPatiently);
const scripted = state(
  ...deploying,
  { type: 'ContainerCreated', data: { deployment_id: 'd1', generation: 1 } },
  { type: 'DeploymentScriptsBegun', data: { deployment_id: 'd1', generation: 1 } },
);
const redeploying = state(...active, given.requested('d2', 2), { type: 'DeploymentStarted', data: { deployment_id: 'd2' } });
const redeployed = state(
  ...active,
  given.requested('d2', 2),
  { type: 'DeploymentStarted', data: { deployment_id: 'd2' } },
  given.imageResolved('d2'),
);
const resolvedWithRelease: AgentEvent[] = [
  ...given.created,
  given.requested('d1', 1),
  { type: 'DeploymentStarted', data: { deployment_id: 'd1' } },
  given.releaseResolved('d1'),
];
const releasingEvents = [...resolvedWithRelease, given.releaseBegun('d1', 1)];
const releasing = state(...resolvedWithRelease);
const rereleasing = state(...active, given.requested('d2', 2), given.releaseResolved('d2'));
const releaseBegun = state(...releasingEvents);
const released = state(...releasingEvents, { type: 'ReleaseCommandSucceeded', data: { deployment_id: 'd1', generation: 2 } });
const backingOff = state(...active, given.exited(2, 1, { generation: 2, at: given.later(4).toISOString() }));
const fallingDeep = state(...active, given.sleepRequested('stopped'));
const deepening = state(...sleeping, given.sleepRequested('stopped', 'deep'));
const deep = state(...active, given.sleepRequested('stopped'), given.slept('stopped'));
const failure = (kind: 'timeout' | 'runtime') =>
  state(...starting, { type: 'AgentFailed', data: { during: 'starting', kind, reason: 'no' } });
const volumeFull = state(...active, { type: 'AgentFailed', data: { during: 'active', kind: 'volume', reason: 'full' } });
const neverSleeps = { ...state(...active), settings: { ...given.settings, idle_ttl_seconds: 0 } };
const notServerless = { ...state(...active), settings: { ...given.settings, serverless: false } };

const table: Row[] = [
  ['never deployed', state(...given.created), nothing, terms(), 'rest'],
  ['never deployed, yet a container', state(...given.created), one('running'), terms(), 'remove g1'],

  ['deploying, out of time', queued, nothing, overdue, 'RecordDeploymentFailure timeout'],
  ['deploying, waits for a place', waiting, nothing, at(301), 'resolve_image'],
  ['deploying, waited for a place until the end of the wait', waiting, nothing, at(3_600), 'RecordDeploymentFailure timeout'],
  ['deploying, had begun and waits again: its own time does not run', waitingAgain, nothing, at(301), 'resolve_image'],
  ['deploying, just asked for', queued, nothing, terms(), 'resolve_image'],
  ['deploying, no image yet', building, nothing, terms(), 'resolve_image'],
  ['deploying anew, no image yet: the old one stays', redeploying, one('running'), terms(), 'resolve_image'],
  ['deploying anew, image there: the old one ends', redeployed, one('running'), terms(), 'replace g1'],
  ['deploying anew, image there: the old one ends though it is frozen', redeployed, one('frozen'), terms(), 'replace g1'],
  [
    'deploying anew, the new one is made: the old one ends',
    redeployed,
    there([container(1, 'running'), container(2, 'created')]),
    terms(),
    'stop g1',
  ],
  ['deploying anew, the old one ended and is removed later', redeployed, one('exited'), terms(), 'create from nginx@sha256:1'],
  ['deploying anew, the old one gone', redeployed, bare, terms(), 'create from nginx@sha256:1'],
  ['deploying, image there', imageThere, nothing, terms(), 'create from nginx@sha256:1'],
  ['deploying, volume there', imageThere, bare, terms(), 'create from nginx@sha256:1'],
  ['deploying, container there', imageThere, one('created'), terms(), 'start g1, RecordContainerCreated meanwhile'],
  ['deploying, container runs before it is recorded', imageThere, one('running'), terms(), 'RecordContainerCreated'],
  ['deploying, container recorded', made, one('created'), terms(), 'start g1'],
  ['deploying, container runs', made, one('running'), terms(), 'ready g1 in 60000, else RecordDeploymentFailure timeout'],
  ['deploying, a start timeout of its own', patient, one('running'), terms(), 'ready g1 in 200000, else RecordDeploymentFailure timeout'],
  ['deploying, container has run for long', made, one('running'), at(290), 'ready g1 in 1000, else RecordDeploymentFailure timeout'],
  ['deploying, scripts ran in a container of an earlier pass: it is made anew', scripted, one('running'), terms(), 'remove g1'],
  ['deploying, scripts ran, the new container is not made', scripted, bare, terms(), 'create from nginx@sha256:1'],
  [
    'deploying, scripts ran in a container of an earlier pass, this one is new',
    scripted,
    one('running', 1, { started: 'a1-g1' }),
    terms(),
    'ready g1 in 60000, else RecordDeploymentFailure timeout',
  ],
  ['releasing, nothing there', releasing, nothing, terms(), 'create from nginx@sha256:1'],
  ['releasing anew: the old container ends before the command has one', rereleasing, one('running'), terms(), 'replace g1'],
  [
    'releasing anew, the container of the command is made: the old one ends',
    rereleasing,
    there([container(1, 'running'), container(2, 'created')]),
    terms(),
    'stop g1',
  ],
  ['releasing, made: it is recorded before it begins', releasing, one('created'), terms(), 'RecordReleaseBegun'],
  ['releasing, recorded', releaseBegun, one('created'), terms(), 'start g1'],
  ['releasing, it runs', releaseBegun, one('running'), terms(), 'follow_release g1'],
  ['releasing, it was frozen', releaseBegun, one('frozen'), terms(), 'thaw g1'],
  ['releasing, it ended', releaseBegun, one('exited'), terms(), 'end_release g1'],
  [
    'releasing, it ended with the code of a program that has not begun, which others use, too',
    releaseBegun,
    notBegun(),
    terms(),
    'end_release g1',
  ],
  [
    'releasing, it ended with the same code after a start in this pass',
    releaseBegun,
    notBegun(1, { started: 'a1-g1' }),
    terms(),
    'end_release g1',
  ],
  ['releasing, its container was removed: it may have run', releaseBegun, bare, terms(), 'RecordDeploymentFailure deployment'],
  [
    'releasing in an outdated container: it may go on there',
    releaseBegun,
    outdated('running'),
    terms(),
    'RecordDeploymentFailure deployment',
  ],
  ['releasing in an outdated container, which was frozen', releaseBegun, outdated('frozen'), terms(), 'RecordDeploymentFailure deployment'],
  ['releasing in an outdated container, which ended', releaseBegun, outdated('exited'), terms(), 'RecordDeploymentFailure deployment'],
  [
    'releasing, its container was removed while an older one runs',
    releaseBegun,
    there([container(0, 'running')]),
    terms(),
    'RecordDeploymentFailure deployment',
  ],
  ['releasing, not begun, while an outdated container runs', releasing, outdated('running'), terms(), 'replace g1'],
  ['releasing, it runs and is out of time', releaseBegun, one('running'), overdue, 'RecordDeploymentFailure timeout'],
  ['released: the container of the command is removed, so that nothing starts it again', released, one('exited'), terms(), 'remove g1'],
  ['released: the agent gets a container of its own', released, bare, terms(), 'create from nginx@sha256:1'],
  ['released, the agent’s container is made', released, one('created', 2), terms(), 'start g2, RecordContainerCreated meanwhile'],
  ['failed in its release command, which runs', state(...releasingEvents, given.failed('d1')), one('running'), terms(), 'remove g1'],
  ['deploying, container was frozen', made, one('frozen'), terms(), 'thaw g1'],
  ['deploying, container ended', made, one('exited'), terms(), 'fail_exited g1'],
  ['deploying, container ended before its program began', made, notBegun(), terms(), 'start g1'],
  ['deploying, it did so after a start in this pass', made, notBegun(1, { started: 'a1-g1' }), terms(), 'fail_exited g1'],

  ['its volume is full, it runs', volumeFull, one('running'), terms(), 'stop g1'],
  ['its volume is full, it was frozen', volumeFull, one('frozen'), terms(), 'stop g1'],
  ['its volume is full, it ended', volumeFull, one('exited'), terms(), 'rest'],
  ['starting, nothing there', state(...starting), nothing, terms(), 'create from nginx@sha256:1'],
  ['starting, old container runs', state(...starting), one('running'), terms(), 'remove g1'],
  ['starting, old container ended', state(...starting), one('exited'), terms(), 'remove g1'],
  ['starting', state(...starting), bare, terms(), 'create from nginx@sha256:1'],
  ['starting, made, but its volume is gone', state(...starting), one('created', 2, { volume: false }), terms(), 'make_volume'],
  ['starting, made', state(...starting), one('created', 2), terms(), 'start g2'],
  ['starting, runs', state(...starting), one('running', 2), terms(), 'ready g2 in 300000, else RecordFailure timeout'],
  ['starting, ended', state(...starting), one('exited', 2), terms(), 'RecordExit exited'],
  ['starting, out of time but runs', state(...starting), one('running', 2), overdue, 'ready g2 in 1000, else RecordFailure timeout'],
  ['starting, container ended before its program began', state(...starting), notBegun(2), terms(), 'start g2'],
  ['starting, out of time', state(...starting), one('created', 2), overdue, 'RecordFailure timeout'],
  ['restarting, old container runs', state(...restarting), one('running'), terms(), 'remove g1'],
  ['restarting', state(...restarting), bare, terms(), 'create from nginx@sha256:1'],
  ['crashed, the old one is cleared at once', backingOff, one('exited'), terms(), 'remove g1'],
  ['crashed, waits before the next start', backingOff, bare, terms(), 'rest 4'],
  ['crashed, waited', backingOff, bare, at(4), 'create from nginx@sha256:1'],

  ['waking from frozen', state(...waking), one('frozen'), terms(), 'thaw g1'],
  ['waking, thawed', state(...waking), one('running'), terms(), 'ready g1 in 300000, else RecordFailure timeout'],
  ['waking from stopped', state(...waking), one('exited'), terms(), 'start g1'],
  ['waking, ended right after its start', state(...waking), one('exited', 1, { started: 'a1-g1' }), terms(), 'RecordExit exited'],
  ['waking, container gone', state(...waking), bare, terms(), 'create from nginx@sha256:1'],
  ['waking, out of time', state(...waking), one('frozen'), overdue, 'RecordFailure timeout'],

  ['active', state(...active), one('running'), terms(), 'rest 300'],
  ['active, used since', state(...active), one('running', 1, { lastActiveAt: given.later(100) }), at(300), 'rest 400'],
  ['active, idle', state(...active), one('running'), at(300), 'order sleep'],
  ['active, idle by the clock but at work', state(...active), one('running', 1, { held: true }), at(300), 'rest 330'],
  ['active, never sleeps', neverSleeps, one('running'), at(9_999), 'rest'],
  ['active, not serverless', notServerless, one('running'), at(9_999), 'rest'],
  ['active, frozen by somebody', state(...active), one('frozen'), terms(), 'thaw g1'],
  ['active, ended', state(...active), one('exited'), terms(), 'RecordExit exited'],
  ['active, container removed by somebody', state(...active), bare, terms(), 'RecordExit removed'],
  ['active, an older container too', state(...active), there([container(0, 'running'), container(1, 'running')]), terms(), 'remove g0'],

  ['active, an earlier release made its container', state(...active), outdated('running'), terms(), 'order restart'],
  ['active, an earlier release made its container, which ended', state(...active), outdated('exited'), terms(), 'order restart'],
  [
    'active, an outdated container too',
    state(...active),
    there([container(1, 'running', { outdated: true }), container(1, 'running')]),
    terms(),
    'remove g1',
  ],
  ['restarting, the outdated container makes way', state(...restarting), outdated('running'), terms(), 'remove g1'],
  ['asleep in an outdated container', state(...sleeping), outdated('frozen'), terms(), 'remove g1'],
  ['in deep sleep, its outdated container makes way', deep, outdated('exited'), terms(), 'remove g1'],
  ['waking from an outdated container', state(...waking), outdated('frozen'), terms(), 'remove g1'],
  ['stopped, its outdated container makes way', state(...stopped), outdated('exited'), terms(), 'remove g1'],
  ['deploying while its outdated container runs', imageThere, outdated('running'), terms(), 'replace g1'],
  ['being deleted with an outdated container', state(...given.deleting), outdated('running'), terms(), 'remove g1 at once'],

  ['stopping', state(...stopping), one('running'), terms(), 'stop g1'],
  ['stopping a frozen one', state(...stopping), one('frozen'), terms(), 'stop g1'],
  ['stopping, ended', state(...stopping), one('exited'), terms(), 'RecordStopped'],
  ['stopping, out of time', state(...stopping), one('running'), overdue, 'kill g1'],
  ['stopping, out of time, removed', state(...stopping), bare, overdue, 'RecordStopped'],
  ['stopped', state(...stopped), one('exited'), terms(), 'rest'],
  ['stopped, yet it runs', state(...stopped), one('running'), terms(), 'stop g1'],

  ['falling asleep', state(...fallingAsleep), one('running'), terms(), 'freeze g1'],
  ['falling asleep, frozen', state(...fallingAsleep), one('frozen'), terms(), 'RecordSlept frozen'],
  ['falling asleep, at work', state(...fallingAsleep), one('running', 1, { held: true }), terms(), 'rest 1'],
  ['falling asleep, at work until its time is over', state(...fallingAsleep), one('running', 1, { held: true }), overdue, 'order wake'],
  ['falling asleep where nothing can be frozen', state(...fallingAsleep), one('running'), terms({ canFreeze: false }), 'stop g1'],
  ['falling asleep, could not be frozen in time', state(...fallingAsleep), one('running'), overdue, 'stop g1'],
  ['falling asleep, ended', state(...fallingAsleep), one('exited'), terms(), 'RecordSlept stopped'],
  ['falling into deep sleep', fallingDeep, one('running'), terms(), 'stop g1'],
  ['falling into deep sleep, at work', fallingDeep, one('running', 1, { held: true }), terms(), 'rest 1'],
  ['falling into deep sleep, stopped', fallingDeep, one('exited'), terms(), 'RecordSlept stopped'],

  ['asleep', state(...sleeping), one('frozen'), terms(), 'rest 900'],
  ['asleep, thawed by somebody', state(...sleeping), one('running'), terms(), 'freeze g1'],
  ['asleep, thawed, nothing can be frozen now', state(...sleeping), one('running'), terms({ canFreeze: false }), 'stop g1'],
  ['asleep, the engine was restarted', state(...sleeping), one('exited'), terms(), 'RecordSlept stopped'],
  ['asleep, container gone', state(...sleeping), bare, terms(), 'RecordSlept stopped'],
  ['asleep for long', state(...sleeping), one('frozen'), at(900), 'order sleep_deeper'],
  ['asleep, to sleep deeper', deepening, one('frozen'), terms(), 'stop g1'],
  ['asleep, to sleep deeper, stopped', deepening, one('exited'), terms(), 'RecordSlept stopped'],
  ['in deep sleep', deep, one('exited'), at(99_999), 'rest'],
  ['in deep sleep, yet it runs', deep, one('running'), terms(), 'stop g1'],

  ['failed deployment, its container runs', state(...given.failedDeployment), one('running'), terms(), 'remove g1'],
  ['failed deployment, its container ended', state(...given.failedDeployment), one('exited'), terms(), 'remove g1'],
  ['failed deployment, cleared: the volume stays', state(...given.failedDeployment), bare, terms(), 'rest'],
  ['crashed too often', state(...given.crashed), one('exited'), terms(), 'rest'],
  ['late, seen running', failure('timeout'), one('running', 2), terms(), 'ready g2 in 1000, else rest'],
  ['late, ended', failure('timeout'), one('exited', 2), terms(), 'rest'],
  ['no engine then, and it runs now', failure('runtime'), one('running', 2), terms(), 'ready g2 in 1000, else rest'],
  ['no engine then, and nothing runs now', failure('runtime'), bare, terms(), 'order restart'],

  ['being deleted', state(...given.deleting), one('running'), terms(), 'remove g1 at once'],
  [
    'being deleted, two containers',
    state(...given.deleting),
    there([container(0, 'exited'), container(1, 'running')]),
    terms(),
    'remove g0 at once',
  ],
  ['being deleted, containers gone', state(...given.deleting), bare, terms(), 'remove_volume'],
  ['being deleted, all gone', state(...given.deleting), nothing, terms(), 'erase'],
  ['deleted, leftovers', state(...given.deleted), one('exited'), terms(), 'remove g1 at once'],
  ['deleted, a volume left', state(...given.deleted), bare, terms(), 'remove_volume'],
  ['deleted', state(...given.deleted), nothing, terms(), 'rest'],
];

it.each(table)('%s', (_, agent, actual, when, step) => {
  expect(told(agent, actual, when)).toBe(step);
});

describe('the expected state after a step', () => {
  const older = container(1, 'running');
  const newer = container(2, 'created');

  it('is what it showed before, if the step changed nothing on the engine', () => {
    const actual = there([older]);
    expect(actualAfter({ do: 'record', record: { type: 'RecordStopped' } }, actual, null)).toBe(actual);
  });

  it('is both containers, the older one ended, after one replaced the other', () => {
    const replace = { do: 'replace', container: older } as const;
    const after = actualAfter(replace, there([older], { volume: false }), newer);
    expect(after).toEqual(there([{ ...older, state: 'exited' }, newer]));
  });

  it('is unknown after any other step', () => {
    expect(actualAfter({ do: 'stop', container: older }, there([older]), null)).toBeNull();
  });
});
