import { create, owner, settings } from '../../../../test/support/computer-arbitraries.ts';
import { fold, NOON } from '../../../../test/support/decider-spec.ts';
import type { ContainerState, ContainerView } from '../../../runtime/container.ts';
import type { ActualState, StepRules } from '../../../sandboxes/lifecycle/steps.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';
import { computerDecider, type ComputerCommand } from '../aggregate/computers.decider.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { nextCheckAt, nextStep } from './next-step.rules.ts';

const rules: StepRules = { canFreeze: true, deepSleepAfterSeconds: 900, startTimeoutSeconds: 60 };
const later = (seconds: number) => new Date(NOON.getTime() + seconds * 1000);

/** Returns the computer after the commands, each of which came so many seconds after noon. */
function after(...commands: [seconds: number, command: ComputerCommand][]): Computer {
  const events: ComputerEvent[] = [];
  for (const [seconds, command] of [[0, create] as const, ...commands])
    events.push(...computerDecider.decide(command, fold(computerDecider, events), later(seconds)));
  return fold(computerDecider, events) as Computer;
}

const container = (state: ContainerState, generation = 1): ContainerView => ({
  agentId: 'computer-1',
  deploymentId: 'computer-1',
  handle: `g${generation}`,
  generation,
  state,
  exitCode: state === 'exited' ? 0 : null,
  oomKilled: false,
  startedAt: null,
  finishedAt: null,
});
const actual = (...containers: ContainerView[]): ActualState => ({
  containers,
  volume: true,
  held: false,
  abandonedBy: null,
  lastActiveAt: null,
  started: null,
});

const image: [number, ComputerCommand] = [1, { type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' }];
const ready: [number, ComputerCommand] = [5, { type: 'RecordReady', generation: 1 }];
const sleep = (depth: 'frozen' | 'stopped'): [number, ComputerCommand] => [
  60,
  { type: 'SleepComputer', accountId: owner, depth, reason: 'requested', deadlineAt: later(210).toISOString() },
];
const slept = (depth: 'frozen' | 'stopped'): [number, ComputerCommand] => [61, { type: 'RecordSlept', depth }];
const wake: [number, ComputerCommand] = [
  100,
  { type: 'WakeComputer', accountId: owner, trigger: 'wake', fromError: true, startTimeoutSeconds: 60, deployTimeoutSeconds: 600 },
];

const step = (computer: Computer, seen: ActualState, seconds: number, known: string | null = 'sha256:1') =>
  nextStep(computer, seen, rules, later(seconds), known);
const resolveImage = { do: 'own', own: { do: 'resolve_image' } };

describe('a computer that is made', () => {
  it('gets its image, its container and a start, and is awake when its desktop is ready', () => {
    const nothing = { ...actual(), volume: false };
    expect(step(after(), nothing, 0, null)).toEqual(resolveImage);
    expect(step(after(image), nothing, 2)).toEqual({ do: 'create' });
    expect(step(after(image), actual(container('created')), 3)).toMatchObject({ do: 'start' });
    expect(step(after(image), actual(container('running')), 4)).toMatchObject({ do: 'await_ready', withinMs: 596_000 });
    expect(step(after(image, ready), actual(container('running')), 6)).toEqual({ do: 'rest' });
  });

  it('fails if it has no image by its deadline', () => {
    expect(step(after(), actual(), 600, null)).toMatchObject({ do: 'record', record: { type: 'RecordFailure', kind: 'timeout' } });
  });
});

describe('a computer that wakes', () => {
  it('goes on where it was, if it is frozen, whatever image is the newest', () => {
    const waking = after(image, ready, sleep('frozen'), slept('frozen'), wake);
    expect(step(waking, actual(container('frozen')), 101, 'sha256:2')).toMatchObject({ do: 'thaw' });
  });

  it('starts again if it was stopped, in a new container if the image of computers is another one by then', () => {
    const waking = after(image, ready, sleep('stopped'), slept('stopped'), wake);
    expect(step(waking, actual(container('exited')), 101)).toMatchObject({ do: 'start' });
    expect(step(waking, actual(container('exited')), 101, null)).toMatchObject({ do: 'start' });
    expect(step(waking, actual(container('exited')), 101, 'sha256:2')).toEqual(resolveImage);
    const renewed = after(image, ready, sleep('stopped'), slept('stopped'), wake, [
      102,
      { type: 'RecordImage', image: 'sha256:2', imageName: 'desk:2' },
    ]);
    expect(step(renewed, actual(container('exited')), 103, 'sha256:2')).toMatchObject({ do: 'remove', gently: true });
    expect(step(renewed, actual(), 103, 'sha256:2')).toEqual({ do: 'create' });
  });

  it('first records a sleep that happened before the wake', () => {
    const waking = after(image, ready, sleep('frozen'), wake);
    const recorded = (depth: string) => ({ do: 'record', record: { type: 'RecordSlept', depth } });
    expect(step(waking, actual(container('frozen')), 101)).toEqual(recorded('frozen'));
    expect(step(waking, actual(container('exited')), 101)).toEqual(recorded('stopped'));
    expect(step(waking, actual(), 101)).toEqual(recorded('stopped'));
    expect(step(waking, actual(container('running')), 101)).toMatchObject({ do: 'await_ready' });
  });
});

describe('a computer that is awake', () => {
  const awake = after(image, ready);

  it('sleeps after its idle time without use, and not while it is in use', () => {
    const running = actual(container('running'));
    expect(nextCheckAt(awake, running, rules, later(6))).toEqual(later(5 + settings.idle_timeout_seconds));
    expect(step(awake, running, 904)).toEqual({ do: 'rest' });
    expect(step(awake, running, 905)).toEqual({ do: 'order', order: 'sleep' });
    expect(step(awake, { ...running, held: true }, 2_000)).toEqual({ do: 'rest' });
    const never = after(image, ready, [6, { type: 'ConfigureComputer', accountId: owner, changes: { idle_timeout_seconds: 0 } }]);
    expect(step(never, running, 100_000)).toEqual({ do: 'rest' });
    expect(nextCheckAt(never, running, rules, later(6))).toBeNull();
  });

  it('has crashed if its container ended', () => {
    expect(step(awake, actual(container('exited')), 10)).toMatchObject({ do: 'record', record: { type: 'RecordExit', generation: 1 } });
  });
});

describe('a computer that a replica was using when that replica ended', () => {
  const running = { ...actual(container('running')), abandonedBy: 'dead' };
  const release = { do: 'own', own: { do: 'release_input', owner: 'dead' } };
  const released = (replica: string): [number, ComputerCommand] => [7, { type: 'RecordInputReleased', owner: replica }];

  it('has its keys and buttons released, once for each such replica', () => {
    expect(step(after(image, ready), running, 6)).toEqual(release);
    expect(step(after(image, ready, released('dead')), running, 8)).toEqual({ do: 'rest' });
    expect(step(after(image, ready, released('another')), running, 8)).toEqual(release);
  });

  it('has them released also while others use it, and is put to sleep instead if it is idle', () => {
    expect(step(after(image, ready), { ...running, held: true }, 2_000)).toEqual(release);
    expect(step(after(image, ready), running, 2_000)).toEqual({ do: 'order', order: 'sleep' });
  });

  it('is left alone while it is not awake, because waking it releases all keys and buttons', () => {
    expect(step(after(image), { ...running, ...actual(container('created')), abandonedBy: 'dead' }, 3)).toMatchObject({ do: 'start' });
    expect(step(after(image, ready, sleep('frozen')), running, 61)).toMatchObject({ do: 'freeze' });
    const frozen = { ...actual(container('frozen')), abandonedBy: 'dead' };
    expect(step(after(image, ready, sleep('frozen'), slept('frozen')), frozen, 62)).toEqual({ do: 'rest' });
    const stopped = { ...actual(container('exited')), abandonedBy: 'dead' };
    expect(step(after(image, ready, sleep('stopped'), slept('stopped')), stopped, 62)).toEqual({ do: 'rest' });
  });
});

describe('a computer that sleeps', () => {
  it('is frozen first, and stopped after a while or on request', () => {
    expect(step(after(image, ready, sleep('frozen')), actual(container('running')), 61)).toMatchObject({ do: 'freeze' });
    expect(step(after(image, ready, sleep('stopped')), actual(container('running')), 61)).toMatchObject({ do: 'stop' });
    const frozen = after(image, ready, sleep('frozen'), slept('frozen'));
    expect(step(frozen, actual(container('frozen')), 62)).toEqual({ do: 'rest' });
    expect(step(frozen, actual(container('frozen')), 961)).toEqual({ do: 'order', order: 'sleep_deeper' });
  });

  it('checks nothing again before something is due', () => {
    const going = after(image, ready, sleep('frozen'));
    expect(nextCheckAt(going, actual(container('running')), rules, later(5_000))).toEqual(later(210));
  });
});

describe('a computer in error', () => {
  it('does not run', () => {
    const failed = after(image, [90, { type: 'RecordFailure', kind: 'timeout', reason: 'late' }]);
    expect(step(failed, actual(container('running')), 91)).toMatchObject({ do: 'stop' });
    expect(step(failed, actual(container('exited')), 91)).toEqual({ do: 'rest' });
  });
});

describe('a computer that is deleted', () => {
  it('loses its container, its volume and its key, in this order', () => {
    const deleting = after(image, ready, [90, { type: 'DeleteComputer', accountId: owner }]);
    expect(step(deleting, actual(container('running')), 91)).toMatchObject({ do: 'remove', gently: false });
    expect(step(deleting, actual(), 91)).toEqual({ do: 'remove_volume' });
    expect(step(deleting, { ...actual(), volume: false }, 91)).toEqual({ do: 'erase' });
  });
});
