import { setImmediate as turn } from 'node:timers/promises';

import { callTo, DesktopFixture, KnownComputers } from '../../../../test/support/desktop-pool.ts';
import { FakeRfbServer } from '../../../../test/support/fake-rfb-server.ts';
import { untilTrue } from '../../../../test/support/until.ts';
import type { AwakeComputer } from './live-computers.service.ts';

const never = new AbortController().signal;
const one: AwakeComputer = { computerId: 'one', accountId: 'acme', generation: 1 };
const beds: DesktopFixture[] = [];

function bed(computers?: KnownComputers): { bed: DesktopFixture; desktop: FakeRfbServer } {
  const desktop = new FakeRfbServer({ width: 320, height: 240 });
  const made = new DesktopFixture(() => desktop.dial(), computers);
  beds.push(made);
  return { bed: made, desktop };
}

afterEach(async () => {
  for (const each of beds.splice(0)) await each.close();
});

/** A batch that lasts until it is ended. */
const waiting = { action: 'hold_key', text: 'ctrl+w', duration: 60 };

describe('the connections to desktops', () => {
  it('are opened at the first use, one for all that use a computer', async () => {
    const { bed: each, desktop } = bed();
    await Promise.all([1, 2, 3].map(() => each.screens.capture(callTo('one'), shot)));
    await each.actions.run(callTo('one'), { action: 'key', text: 'a' }, (outcome) => outcome);
    expect(desktop.connections).toBe(1);
  });

  it('are closed after a while without use, and opened again', async () => {
    const { bed: each, desktop } = bed();
    each.pool.idleMs = 1;
    await each.screens.capture(callTo('one'), shot);
    await untilTrue(() => each.pool.size === 0 && !desktop.isConnected);
    await each.screens.capture(callTo('one'), shot);
    expect(desktop.connections).toBe(2);
  });

  it('remember the place of the pointer, even after a person has moved it, until the desktop ends', async () => {
    const { bed: each, desktop } = bed();
    const [move, look] = [{ action: 'mouse_move', coordinate: [12, 34] }, { action: 'cursor_position' }];
    const reopened = async () => {
      await untilTrue(() => each.pool.size === 0 && !desktop.isConnected);
      return each.actions.run(callTo('one'), look, ({ cursor }) => cursor);
    };
    each.pool.idleMs = 1;
    await each.actions.run(callTo('one'), move, (outcome) => outcome);
    expect(await reopened()).toEqual({ x: 12, y: 34 });
    await untilTrue(() => each.pool.size === 0);
    each.pool.movePointer('one', { x: 56, y: 78 });
    each.events.emit('ComputerSlept', 'one', { depth: 'frozen' });
    expect(await reopened()).toEqual({ x: 56, y: 78 });
    await untilTrue(() => each.pool.size === 0);
    each.events.emit('ComputerSlept', 'one', { depth: 'stopped' });
    expect(await reopened()).toEqual({ x: 160, y: 120 });
  });

  it('stay while a button is held down', async () => {
    const { bed: each, desktop } = bed();
    each.pool.idleMs = 1;
    await each.actions.run(callTo('one'), { action: 'left_mouse_down', coordinate: [5, 6] }, (outcome) => outcome);
    await each.screens.capture(callTo('two'), shot);
    await untilTrue(() => each.pool.size === 1);
    expect(desktop.events.at(-1)).toBe('pointer 5,6 1');
    await each.actions.run(callTo('one'), { action: 'left_mouse_up' }, (outcome) => outcome);
    await untilTrue(() => each.pool.size === 0);
  });

  it.each(['ComputerSlept', 'ComputerExited', 'ComputerFailed', 'ComputerDeletionRequested', 'ComputerDeleted'])(
    'are closed by %s, which ends a batch',
    async (type) => {
      const { bed: each, desktop } = bed();
      const batch = each.actions.run(callTo('one'), waiting, (outcome) => outcome);
      await untilTrue(() => desktop.events.includes('key 77 down'));
      each.computers.asleep.add('one');
      each.events.emit(type, 'one');
      await expect(batch).rejects.toMatchObject({ code: 'desktop_unreachable' });
      await untilTrue(() => !desktop.isConnected);
      expect([each.pool.size, each.computers.held]).toEqual([0, 0]);
    },
  );

  it('outlive an event that is older than their use', async () => {
    const { bed: each, desktop } = bed();
    const batch = each.actions.run(callTo('one'), { action: 'wait', duration: 0.2 }, ({ ok }) => ok);
    await untilTrue(() => desktop.connections === 1);
    each.events.emit('ComputerSlept', 'one');
    expect(await batch).toBe(true);
    expect(each.pool.size).toBe(1);
  });

  it('are closed by a gap in the log unless they are in use', async () => {
    const { bed: each } = bed();
    await each.screens.capture(callTo('idle'), shot);
    const batch = each.actions.run(callTo('one'), { action: 'wait', duration: 0.2 }, ({ ok }) => ok);
    await untilTrue(() => each.pool.size === 2);
    each.events.skip();
    expect(each.pool.size).toBe(1);
    expect(await batch).toBe(true);
  });

  it('lead to the container of the generation', async () => {
    const desktops: FakeRfbServer[] = [];
    const each = new DesktopFixture(() => {
      const desktop = new FakeRfbServer();
      desktops.push(desktop);
      return desktop.dial();
    });
    beds.push(each);
    const answers = (computer: AwakeComputer) => each.pool.use(computer, never, ({ driver }) => driver.checkAnswers(never));
    await answers(one);
    await answers({ ...one, generation: 2 });
    await untilTrue(() => desktops[0]?.isConnected === false);
    expect(desktops.map(({ isConnected }) => isConnected)).toEqual([false, true]);
  });
});

describe('the first frame', () => {
  it('is waited for while the desktop begins', async () => {
    const desktop = new FakeRfbServer();
    let dials = 0;
    const made = new DesktopFixture(async () => {
      dials += 1;
      if (dials < 5) throw new Error('nobody listens');
      return desktop.dial();
    });
    beds.push(made);
    expect(await made.pool.waitForFirstFrame(one, 30_000, never)).toBe(true);
  });

  it('is not awaited for longer than requested', async () => {
    const { bed: each, desktop } = bed();
    desktop.isSilent = true;
    expect(await each.pool.waitForFirstFrame(one, 50, never)).toBe(false);
  });

  it('is not awaited any more after the signal aborts', async () => {
    const { bed: each, desktop } = bed();
    desktop.isSilent = true;
    const giveUp = new AbortController();
    const first = each.pool.waitForFirstFrame(one, 60_000, giveUp.signal);
    await turn();
    giveUp.abort(new Error('given up'));
    await expect(first).rejects.toThrow('given up');
  });
});

it('releases what another process has left held down', async () => {
  const { bed: each, desktop } = bed();
  await each.pool.releaseInput(one, never);
  expect(desktop.events).toContain('key ffe3 up');
  expect(desktop.events.at(-1)).toMatch(/^pointer .* 0$/);
});

const shot = { format: 'png', quality: 80, scale: 1, region: null, cursor: true } as const;
