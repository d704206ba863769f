import { create, owner, sealed, settings } from '../../../../test/support/computer-arbitraries.ts';
import { given, NOON } from '../../../../test/support/decider-spec.ts';
import { shownStatus, type Computer } from './computer-state.rules.ts';
import { computerDecider, VARIABLES_BYTES_MAX, VARIABLES_MAX, type ComputerCommand } from './computers.decider.ts';
import type { ComputerEvent } from './computers.events.ts';

const at = (seconds: number) => new Date(NOON.getTime() + seconds * 1000).toISOString();
const later = (seconds: number) => new Date(NOON.getTime() + seconds * 1000);

const created: ComputerEvent = {
  type: 'ComputerCreated',
  data: {
    ...settings,
    account_id: owner,
    end_user_id: 'user_42',
    variables: {},
    generation: 1,
    deadline_at: at(600),
    requested_at: at(0),
  },
};
const image: ComputerEvent = { type: 'ComputerImageResolved', data: { image: 'sha256:1', image_name: 'desk:1', generation: 1 } };
const woke = (after: 'nothing' | 'awake' | 'frozen' | 'stopped' | 'crash', seconds: number, generation = 1): ComputerEvent => ({
  type: 'ComputerWoke',
  data: { after, generation, started_at: at(seconds), size: 'small' },
});
const sleepAsked = (depth: 'frozen' | 'stopped', seconds: number): ComputerEvent => ({
  type: 'ComputerSleepRequested',
  data: { depth, reason: 'requested', deadline_at: at(seconds + 150), requested_at: at(seconds) },
});
const slept = (depth: 'frozen' | 'stopped', seconds: number): ComputerEvent => ({
  type: 'ComputerSlept',
  data: { depth, slept_at: at(seconds) },
});
const wakeAsked = (seconds: number, generation = 1, within = 90): ComputerEvent => ({
  type: 'ComputerWakeRequested',
  data: { trigger: 'wake', generation, deadline_at: at(seconds + within), requested_at: at(seconds) },
});
const resized: ComputerEvent = { type: 'ComputerConfigured', data: { changes: { size: 'large' } } };
const failed: ComputerEvent = {
  type: 'ComputerFailed',
  data: { during: 'creating', kind: 'timeout', reason: 'It was not ready in time.', failed_at: at(600) },
};
const deleting: ComputerEvent = { type: 'ComputerDeletionRequested', data: { requested_at: at(90) } };

const awake = [created, image, woke('nothing', 5)];
const frozen = [...awake, sleepAsked('frozen', 60), slept('frozen', 61)];
const stopped = [...awake, sleepAsked('stopped', 60), slept('stopped', 61)];

const wake: Extract<ComputerCommand, { type: 'WakeComputer' }> = {
  type: 'WakeComputer',
  accountId: owner,
  trigger: 'wake',
  fromError: true,
  startTimeoutSeconds: 60,
  deployTimeoutSeconds: 600,
};
const sleep = (depth: 'frozen' | 'stopped'): ComputerCommand => ({
  type: 'SleepComputer',
  accountId: owner,
  depth,
  reason: 'requested',
  deadlineAt: at(210),
});
const exit = (seconds?: number): ComputerCommand => ({
  type: 'RecordExit',
  generation: 1,
  exitCode: 1,
  oom: false,
  cause: 'exited',
  startTimeoutSeconds: 60,
  ...(seconds === undefined ? {} : { at: at(seconds) }),
});

const when = (...events: ComputerEvent[]) => given(computerDecider, ...events);
const shown = (...events: ComputerEvent[]) => shownStatus(when(...events).state as Computer);

describe('a new computer', () => {
  it('is made once, with the image of computers, and is awake as soon as its first picture is there', () => {
    when().when(create).then(created);
    when(created).when(create).then();
    when(created).when({ type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' }).then(image);
    when(created, image)
      .when({ type: 'RecordReady', generation: 1, at: at(5) }, later(6))
      .then(woke('nothing', 5));
    expect([shown(created), shown(...awake)]).toEqual(['creating', 'awake']);
  });

  it('says what it waits for', () => {
    expect(when(created).state?.message).toMatch(/image/);
    expect(when(created, image).state?.message).toMatch(/first time/);
    expect(when(...awake).state?.message).toBeNull();
  });

  it('can’t be put to sleep, and needs no wake', () => {
    when(created).when(sleep('stopped')).refuses('invalid_state');
    when(created).when(wake).then();
  });

  it('is in error if it is not ready in time, and a wake tries again with time for the image', () => {
    when(created).when({ type: 'RecordFailure', kind: 'timeout', reason: 'It was not ready in time.' }, later(600)).then(failed);
    when(created, failed)
      .when(wake, later(700))
      .then(wakeAsked(700, 2, 600));
    when(created, failed, wakeAsked(700, 2))
      .when({ type: 'RecordReady', generation: 2 }, later(705))
      .then(woke('nothing', 705, 2));
    when(created, failed)
      .when({ ...wake, fromError: false })
      .refuses('invalid_state');
    when(created, failed).when(sleep('stopped')).refuses('invalid_state');
  });
});

describe('another account', () => {
  it('gets the same response as for a missing computer, as everybody does once its deletion is requested', () => {
    for (const command of [wake, sleep('stopped'), { type: 'ConfigureComputer' as const, accountId: owner, changes: {} }]) {
      when(...awake)
        .when({ ...command, accountId: 'other' } as ComputerCommand)
        .refuses('computer_not_found');
      when().when(command).refuses('computer_not_found');
      when(...awake, deleting)
        .when(command)
        .refuses('computer_not_found');
    }
    when(...awake)
      .when({ type: 'DeleteComputer', accountId: 'other' })
      .refuses('computer_not_found');
  });
});

describe('a sleep', () => {
  it('begins when the engine froze the computer, which is awake until then', () => {
    when(...awake)
      .when(sleep('frozen'), later(60))
      .then(sleepAsked('frozen', 60));
    const asked = [...awake, sleepAsked('frozen', 60)];
    expect([shown(...asked), shown(...frozen)]).toEqual(['awake', 'asleep']);
    when(...asked)
      .when({ type: 'RecordSlept', depth: 'frozen', at: at(61) }, later(900))
      .then(slept('frozen', 61));
  });

  it('is deepened once, and keeps its start time', () => {
    when(...frozen)
      .when(sleep('frozen'))
      .then();
    when(...frozen)
      .when(sleep('stopped'), later(60))
      .then(sleepAsked('stopped', 60));
    const deeper = [...frozen, sleepAsked('stopped', 70), slept('stopped', 80)];
    expect(when(...deeper).state).toMatchObject({ status: 'asleep', sleepDepth: 'stopped', sleptAt: at(61), lastAwakeUntil: at(61) });
    when(...deeper)
      .when(sleep('stopped'))
      .then();
    when(...awake, sleepAsked('frozen', 60))
      .when(sleep('stopped'), later(61))
      .then({ ...sleepAsked('stopped', 61), data: { ...sleepAsked('stopped', 61).data, deadline_at: at(210) } } as ComputerEvent);
  });

  it('has the time of the engine, but never one before the computer woke or in the future', () => {
    const asked = when(...awake, sleepAsked('frozen', 60));
    asked.when({ type: 'RecordSlept', depth: 'frozen', at: at(-100) }, later(61)).then(slept('frozen', 5));
    asked.when({ type: 'RecordSlept', depth: 'frozen', at: at(1_000) }, later(61)).then(slept('frozen', 61));
  });
});

describe('a wake', () => {
  it('keeps the container of a frozen computer, even after changes', () => {
    when(...frozen)
      .when(wake, later(100))
      .then(wakeAsked(100));
    when(...frozen, resized)
      .when(wake, later(100))
      .then(wakeAsked(100));
    when(...frozen, wakeAsked(100))
      .when({ type: 'RecordReady', generation: 1 }, later(101))
      .then(woke('frozen', 101));
  });

  it('makes another container for a stopped computer whose size, screen or network was changed', () => {
    when(...stopped)
      .when(wake, later(100))
      .then(wakeAsked(100));
    when(...stopped, resized)
      .when(wake, later(100))
      .then(wakeAsked(100, 2, 210));
    const [, , , ...rest] = [created, image, woke('nothing', 5), ...stopped.slice(3), resized, wakeAsked(100, 2)];
    const { state } = when(...awake, ...rest);
    expect(state?.boot).toEqual({ generation: 2, size: 'large', display: settings.display, egress: null });
    when(...awake, ...rest)
      .when({ type: 'RecordReady', generation: 2 }, later(103))
      .then({ type: 'ComputerWoke', data: { after: 'stopped', generation: 2, started_at: at(103), size: 'large' } });
  });

  it('before the sleep leaves no gap in the time awake', () => {
    const asked = [...awake, sleepAsked('frozen', 60), wakeAsked(60)];
    expect(shown(...asked)).toBe('waking');
    when(...asked)
      .when({ type: 'RecordReady', generation: 1 }, later(61))
      .then(woke('awake', 5));
  });

  it('that comes before the sleep was recorded begins a new time awake if the computer slept nevertheless', () => {
    const asked = [...awake, sleepAsked('frozen', 60), wakeAsked(3_600)];
    when(...asked)
      .when({ type: 'RecordSlept', depth: 'frozen', at: at(61) }, later(3_600))
      .then(slept('frozen', 61));
    when(...asked, slept('frozen', 61))
      .when({ type: 'RecordReady', generation: 1, at: at(3_601) }, later(3_602))
      .then(woke('frozen', 3_601));
  });

  it('makes another container if the image of computers is another one by then', () => {
    when(...stopped, wakeAsked(100))
      .when({ type: 'RecordImage', image: 'sha256:2', imageName: 'desk:2' })
      .then({ type: 'ComputerImageResolved', data: { image: 'sha256:2', image_name: 'desk:2', generation: 2 } });
    when(...stopped, wakeAsked(100))
      .when({ type: 'RecordImage', image: 'sha256:1', imageName: 'desk:1' })
      .then();
  });

  it('fails if there is no memory for the computer', () => {
    when(...stopped, wakeAsked(100))
      .when({ type: 'RecordNoCapacity', reason: 'There is no memory.' }, later(190))
      .then({ type: 'ComputerFailed', data: { during: 'waking', kind: 'capacity', reason: 'There is no memory.', failed_at: at(190) } });
    when(...awake)
      .when({ type: 'RecordNoCapacity', reason: 'There is no memory.' })
      .then();
  });
});

describe('a computer whose container ended', () => {
  const exited = (crashes: number, restart: boolean): ComputerEvent => ({
    type: 'ComputerExited',
    data: {
      generation: 1,
      exit_code: 1,
      oom: false,
      cause: 'exited',
      exited_at: at(30),
      crashes,
      restart: restart ? { generation: 2, at: at(40), deadline_at: at(250) } : null,
    },
  });

  it('was awake until then, and is started again', () => {
    when(...awake)
      .when(exit(30), later(40))
      .then(exited(1, true));
    expect(shown(...awake, exited(1, true))).toBe('waking');
    when(...awake, exited(1, true))
      .when({ type: 'RecordReady', generation: 2, at: at(20) }, later(50))
      .then(woke('crash', 30, 2));
  });

  it('puts the computer in error after five consecutive times, until it is woken', () => {
    const { state } = when(...awake, exited(5, false));
    expect(state).toMatchObject({ status: 'error', failure: 'crash', lastAwakeUntil: at(30) });
    expect(state?.message).toContain('5 times');
    when(...awake, exited(5, false))
      .when(wake, later(100))
      .then(wakeAsked(100, 2, 210));
    expect(when(...awake, exited(5, false), wakeAsked(100, 2)).state?.crashes).toBe(0);
  });

  it('is no crash while it sleeps, or of an older container', () => {
    when(...frozen)
      .when(exit())
      .then();
    when(...awake)
      .when({ ...exit(), generation: 0 } as ComputerCommand)
      .then();
  });

  it('has to stop when its volume is full', () => {
    when(...awake)
      .when({ type: 'RecordVolumeFull', reason: 'Its volume is full.' }, later(30))
      .then({ type: 'ComputerFailed', data: { during: 'awake', kind: 'volume', reason: 'Its volume is full.', failed_at: at(30) } });
    when(...awake)
      .when({ type: 'RecordStopped' })
      .then();
  });
});

describe('a change', () => {
  const configure = (changes: Extract<ComputerCommand, { type: 'ConfigureComputer' }>['changes']): ComputerCommand => ({
    type: 'ConfigureComputer',
    accountId: owner,
    changes,
  });

  it('is recorded where something differs', () => {
    when(...awake)
      .when(configure({ name: 'desk', size: 'large', egress: null }))
      .then(resized);
    when(...awake)
      .when(configure({ name: 'desk', display: { width: 1280, height: 800 } }))
      .then();
  });

  it('sets and removes single variables', () => {
    const set = (variables: Record<string, ReturnType<typeof sealed> | null>): ComputerEvent => ({
      type: 'ComputerConfigured',
      data: { changes: { variables } },
    });
    const first = set({ A: sealed('1'), B: sealed('2') });
    when(...awake)
      .when(configure({ variables: { A: sealed('1'), B: sealed('2'), C: null } }))
      .then(first);
    const { state } = when(...awake, first, set({ A: null }));
    expect(Object.keys(state?.variables ?? {})).toEqual(['B']);
  });

  it('is refused if the variables are too many or too large', () => {
    const many = Object.fromEntries(Array.from({ length: VARIABLES_MAX }, (_, index) => [`KEY_${index}`, sealed('x')]));
    const full = { ...created, data: { ...created.data, variables: many } } as ComputerEvent;
    when(full)
      .when(configure({ variables: { ONE_MORE: sealed('x') } }))
      .refuses('invalid_request');
    when(full)
      .when(configure({ variables: { KEY_0: sealed('y') } }))
      .then({
        type: 'ComputerConfigured',
        data: { changes: { variables: { KEY_0: sealed('y') } } },
      });
    when(created)
      .when(configure({ variables: { LARGE: sealed('x'.repeat(VARIABLES_BYTES_MAX)) } }))
      .refuses('invalid_request');
  });
});

describe('the use of a computer', () => {
  const acted = { actions: { left_click: 2, type: 1 }, batches: 2, screenshots: 1, since: at(6), until: at(7) };

  it('is counted, and changes nothing else', () => {
    when(...awake)
      .when({ type: 'RecordActed', ...acted })
      .then({ type: 'ComputerActed', data: acted });
    expect(when(...awake, { type: 'ComputerActed', data: acted }).state).toEqual(when(...awake).state);
  });

  it('releases what an interrupted batch left pressed, once', () => {
    const release: ComputerCommand = { type: 'RecordInputReleased', owner: 'replica-1' };
    const released: ComputerEvent = { type: 'ComputerInputReleased', data: { owner: 'replica-1' } };
    when(...awake)
      .when(release)
      .then(released);
    when(...awake, released)
      .when(release)
      .then();
    when(...stopped)
      .when(release)
      .then();
  });
});

describe('a deletion', () => {
  const remove: ComputerCommand = { type: 'DeleteComputer', accountId: owner };

  it('is recorded once, ends the time awake, and is over when everything is gone', () => {
    when(...awake)
      .when(remove, later(90))
      .then(deleting);
    when(...awake, deleting)
      .when(remove)
      .then();
    expect(when(...awake, deleting).state).toMatchObject({ activeSince: null, lastAwakeUntil: at(90) });
    when(...awake, deleting)
      .when({ type: 'RecordDeleted' })
      .then({ type: 'ComputerDeleted', data: {} });
    when(...awake)
      .when({ type: 'RecordDeleted' })
      .then();
    when(...awake, deleting, { type: 'ComputerDeleted', data: {} })
      .when(remove)
      .refuses('computer_not_found');
  });
});
