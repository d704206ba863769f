import type { Duplex } from 'node:stream';

import { FakeRfbServer, type FakeRfbOptions } from '../../../test/support/fake-rfb-server.ts';
import { until } from '../../../test/support/until.ts';
import type { Batch, ImageFormat, Size } from '../actions/canonical-actions.ts';
import { normaliseBatch } from '../actions/normalise-batch.ts';
import { encodeImage, type EncodedImage } from '../screen/encode-image.ts';
import { WAITING_BATCHES_MAX } from './batch-queue.ts';
import type { BatchOutcome } from './batch-runner.ts';
import { DesktopDriver, type DesktopPorts } from './desktop-driver.ts';

const never = new AbortController().signal;
const drivers: DesktopDriver[] = [];

/** Returns a desktop whose screen is as large as the smallest display that a caller may see, and what drives it. */
function driven(options: FakeRfbOptions = {}, ports: Partial<DesktopPorts> = {}): { desktop: FakeRfbServer; driver: DesktopDriver } {
  const desktop = new FakeRfbServer({ width: 320, height: 240, ...options });
  const reserve = async () => () => undefined;
  const driver = new DesktopDriver({ dial: async () => desktop.dial(), encode: encodeImage, reserve, ...ports });
  drivers.push(driver);
  return { desktop, driver };
}

afterEach(async () => {
  for (const driver of drivers.splice(0)) await driver.close();
});

function batchOf(...actions: object[]): Batch {
  return batchFrom({ actions }, { width: 320, height: 240 });
}

function batchFrom(body: object, size: Size): Batch {
  const normalised = normaliseBatch(body, size);
  if (!normalised.ok) throw new Error(JSON.stringify(normalised.errors));
  return normalised.batch;
}

function run(driver: DesktopDriver, ...actions: object[]): Promise<BatchOutcome> {
  return runBatch(driver, batchOf(...actions));
}

function runBatch(driver: DesktopDriver, batch: Batch, signal = never): Promise<BatchOutcome> {
  return driver.run({ batchFor: async () => batch, reserveImage: () => true }, signal);
}

/** Runs the body as a batch for the screen as it is. */
function runBody(driver: DesktopDriver, body: object): Promise<BatchOutcome> {
  return driver.run({ batchFor: async (size) => batchFrom(body, size), reserveImage: () => true }, never);
}

/** Takes a picture of the whole screen. */
function take(
  driver: DesktopDriver,
  { cursor = true, format = 'png' }: { cursor?: boolean; format?: ImageFormat } = {},
): Promise<EncodedImage> {
  return driver.picture(cursor, () => ({ format, quality: 80 }), never);
}

/** Returns what the desktop got of a batch that is done, without the movement with which a connection begins. */
async function eventsOf(...actions: object[]): Promise<string[]> {
  const { desktop, driver } = driven();
  expect(await run(driver, ...actions)).toMatchObject({ ok: true, completed: actions.length });
  return desktop.events.slice(1);
}

describe('an action', () => {
  it('clicks at the given place, or at the pointer, as often as requested, with keys held', async () => {
    expect(await eventsOf({ action: 'left_click', coordinate: [0, 7], text: 'ctrl' }, { action: 'double_click' })).toEqual([
      'pointer 0,7 0',
      'key ffe3 down',
      'pointer 0,7 1',
      'pointer 0,7 0',
      'key ffe3 up',
      'pointer 0,7 1',
      'pointer 0,7 0',
      'pointer 0,7 1',
      'pointer 0,7 0',
    ]);
  });

  it.each([
    ['right_click', 4],
    ['middle_click', 2],
  ])('%s presses that button', async (action, bit) => {
    expect(await eventsOf({ action, coordinate: [1, 2] })).toEqual(['pointer 1,2 0', `pointer 1,2 ${bit}`, 'pointer 1,2 0']);
  });

  it('goes back by the keys for it', async () => {
    expect(await eventsOf({ type: 'click', button: 'back', x: 1, y: 2 })).toEqual([
      'pointer 1,2 0',
      'key ffe9 down',
      'key ff51 down',
      'key ff51 up',
      'key ffe9 up',
    ]);
  });

  it('drags through each point in ten steps, with the button down', async () => {
    const events = await eventsOf({
      type: 'drag',
      path: [
        [0, 0],
        [100, 50],
        [100, 60],
      ],
      keys: ['SHIFT'],
    });
    expect(events.slice(0, 3)).toEqual(['key ffe1 down', 'pointer 0,0 0', 'pointer 0,0 1']);
    expect(events.slice(3, -2)).toEqual([
      ...Array.from({ length: 10 }, (_, index) => `pointer ${(index + 1) * 10},${(index + 1) * 5} 1`),
      ...Array.from({ length: 10 }, (_, index) => `pointer 100,${51 + index} 1`),
    ]);
    expect(events.slice(-2)).toEqual(['pointer 100,60 0', 'key ffe1 up']);
  });

  it.each([
    [{ scroll_x: 0, scroll_y: 200 }, [16, 0, 16, 0]],
    [{ scroll_x: 0, scroll_y: -100 }, [8, 0]],
    [{ scroll_x: -30, scroll_y: 0 }, [32, 0]],
    [{ scroll_x: 100, scroll_y: 0 }, [64, 0]],
  ])('scrolls by one press of the wheel for each notch: %j', async (by, bits) => {
    expect(await eventsOf({ type: 'scroll', x: 5, y: 6, ...by })).toEqual(['pointer 5,6 0', ...bits.map((bit) => `pointer 5,6 ${bit}`)]);
  });

  it('presses the keys of a chord in order and releases them in the opposite one', async () => {
    expect(await eventsOf({ action: 'key', text: 'ctrl+shift+t', repeat: 2 })).toEqual(
      [1, 2].flatMap(() => ['key ffe3 down', 'key ffe1 down', 'key 54 down', 'key 54 up', 'key ffe1 up', 'key ffe3 up']),
    );
  });

  it('types ASCII as keys, a text of any length in order', async () => {
    const text = 'a~\tB\r\n'.repeat(500);
    const keys = ['61', '7e', 'ff09', '42', 'ff0d'];
    expect(await eventsOf({ action: 'type', text })).toEqual(
      Array.from({ length: 500 }, () => keys.flatMap((key) => [`key ${key} down`, `key ${key} up`])).flat(),
    );
  });

  it('pastes any other text whole, and ends its last line by a key', async () => {
    const { desktop, driver } = driven();
    await run(driver, { action: 'type', text: 'zwei\nGrößen 你\n' }, { action: 'paste', text: 'plain' });
    expect(desktop.pasted).toEqual(['zwei\r\nGrößen 你', 'plain']);
    const insert = ['key ffe1 down', 'key ff63 down', 'key ff63 up', 'key ffe1 up'];
    expect(desktop.events.slice(1)).toEqual([...insert, 'key ff0d down', 'key ff0d up', ...insert]);
  });

  it('fails for a text that the clipboard of the desktop can’t hold', async () => {
    const { driver } = driven({ isModern: false });
    expect(await run(driver, { type: 'type', text: '你' })).toMatchObject({ ok: false, results: [{ error: { code: 'invalid_action' } }] });
  });

  it('moves the pointer, and reports its place in the caller’s coordinates', async () => {
    const { driver } = driven({ width: 640, height: 480 });
    const body = { actions: [{ type: 'move', x: 319, y: 0 }, { action: 'cursor_position' }], display: { width: 320, height: 240 } };
    expect(await runBody(driver, body)).toMatchObject({
      results: [{}, { action: 'cursor_position', ok: true, x: 319, y: 0 }],
      cursor: { x: 319, y: 0 },
    });
  });

  it('takes pictures: of the whole screen, of a region, after an action, and at the end', async () => {
    const { driver } = driven();
    const actions = [
      { action: 'screenshot' },
      { action: 'zoom', region: [10, 10, 30, 20] },
      { action: 'key', text: 'a', screenshot: { scale: 0.5, delay_ms: 0, cursor: false } },
    ];
    expect(await runBody(driver, { actions, screenshot: { format: 'jpeg', delay_ms: 0 } })).toMatchObject({
      ok: true,
      results: [
        { screenshot: { format: 'png', width: 320, height: 240 } },
        { screenshot: { width: 20, height: 10 } },
        { screenshot: { width: 160, height: 120 } },
      ],
      screenshot: { format: 'jpeg', width: 320, height: 240 },
    });
  });
});

describe('what is held down', () => {
  it('is released after a batch, but for a button that was pressed for the next one', async () => {
    const { desktop, driver } = driven();
    await run(driver, { action: 'left_mouse_down', coordinate: [1, 1] }, { action: 'mouse_move', coordinate: [9, 9] });
    expect(desktop.held).toEqual(['buttons 1']);
    await run(driver, { action: 'left_mouse_up' });
    expect(desktop.held).toEqual([]);
  });

  it('is released when an action fails in its middle, which ends the batch', async () => {
    const { desktop, driver } = driven();
    // A drag is sent in parts, of which this one's first is done before it fails.
    const back = Array.from({ length: 30 }, (_, at) => (at % 2 === 0 ? [100, 100] : [0, 0]));
    const drag = { type: 'drag', path: [[0, 0], ...back, [300, 200]], keys: ['CTRL'] };
    const batch = batchOf({ action: 'key', text: 'a' }, drag, { action: 'key', text: 'b' });
    await take(driver);
    desktop.resize(200, 150);
    await until('the new size', async () => ((await take(driver)).width === 200 ? true : undefined));
    const outcome = await runBatch(driver, batch);
    expect(outcome).toMatchObject({ ok: false, completed: 1, results: [{ ok: true }, { error: { code: 'coordinate_out_of_bounds' } }] });
    expect(outcome.results).toHaveLength(2);
    expect(desktop.events).toContain('pointer 100,100 1');
    expect(desktop.events).not.toContain('key 62 down');
    expect(desktop.held).toEqual([]);
  });

  it.each([
    ['a key', { action: 'hold_key', text: 'ctrl+w', duration: 60 }, 'key 77 down'],
    ['a long drag', { type: 'drag', path: Array.from({ length: 200 }, (_, index) => [index, 0]) }, 'pointer 100,0 1'],
  ])('is released when a batch is given up in the middle of %s', async (_, action, event) => {
    const { desktop, driver } = driven();
    const giveUp = new AbortController();
    desktop.onEvent = (each) => {
      if (each === event) giveUp.abort(new Error('given up'));
    };
    await expect(runBatch(driver, batchOf(action, { action: 'key', text: 'x' }), giveUp.signal)).rejects.toThrow('given up');
    expect(desktop.held).toEqual([]);
    expect(desktop.events).not.toContain('key 78 down');
  });

  it('is released on request if another process left it pressed, unless a batch here was told to keep it pressed', async () => {
    const { desktop, driver } = driven();
    await driver.checkAnswers(never);
    const { driver: other } = driven({}, { dial: async () => desktop.dial() });
    await run(other, { action: 'left_mouse_down', coordinate: [1, 1] });
    expect(desktop.held).toEqual(['buttons 1']);
    await driver.releaseInput(never);
    expect(desktop.held).toEqual([]);
    await run(driver, { action: 'left_mouse_down', coordinate: [2, 2] });
    await driver.releaseInput(never);
    expect(desktop.held).toEqual(['buttons 1']);
    for (const modifier of ['ffe1', 'ffe3', 'ffe9', 'ffeb']) expect(desktop.events).toContain(`key ${modifier} up`);
  });

  it('is released by the first event of a connection after one that was lost', async () => {
    const { desktop, driver } = driven();
    await run(driver, { action: 'left_mouse_down', coordinate: [12, 34] });
    desktop.hangUp();
    const before = desktop.events.length;
    await run(driver, { action: 'cursor_position' });
    expect(desktop.events.slice(before)).toEqual(['pointer 12,34 0']);
  });
});

describe('batches', () => {
  it('run one after the other', async () => {
    const { desktop, driver } = driven();
    await Promise.all(
      ['a', 'b', 'c'].map((text) => run(driver, { action: 'type', text }, { action: 'wait', duration: 0 }, { action: 'type', text })),
    );
    const downs = desktop.events.filter((event) => event.endsWith('down')).map((event) => event.slice(4, 6));
    expect(downs).toEqual(['61', '61', '62', '62', '63', '63']);
  });

  it('are refused while the queue is full, and an aborted one frees its place', async () => {
    const { driver } = driven();
    const giveUp = new AbortController();
    const slow = runBatch(driver, batchOf({ action: 'wait', duration: 60 }), giveUp.signal);
    const leave = new AbortController();
    const leaving = runBatch(driver, batchOf({ type: 'wait' }), leave.signal);
    const waiting = Array.from({ length: WAITING_BATCHES_MAX - 1 }, () => run(driver, { action: 'key', text: 'a' }));
    await expect(run(driver, { action: 'key', text: 'b' })).rejects.toMatchObject({ code: 'busy', retryAfterSeconds: 1 });
    leave.abort(new Error('left'));
    await expect(leaving).rejects.toThrow('left');
    waiting.push(run(driver, { action: 'key', text: 'c' }));
    giveUp.abort(new Error('given up'));
    await expect(slow).rejects.toThrow('given up');
    expect((await Promise.all(waiting)).every(({ ok }) => ok)).toBe(true);
  });
});

describe('a connection', () => {
  it('is one for all batches and pictures', async () => {
    const { desktop, driver } = driven();
    await Promise.all([run(driver, { action: 'key', text: 'a' }), take(driver)]);
    await run(driver, { action: 'key', text: 'b' });
    expect(desktop.connections).toBe(1);
  });

  it('that was lost is opened once more, for pictures and before the first action', async () => {
    const { desktop, driver } = driven();
    await take(driver);
    desktop.hangUp();
    await take(driver);
    desktop.hangUp();
    expect(await run(driver, { action: 'key', text: 'a' })).toMatchObject({ ok: true });
    expect(desktop.connections).toBe(3);
  });

  it('that is lost during a batch fails the current action, which is not repeated', async () => {
    const { desktop, driver } = driven();
    desktop.onEvent = (event) => {
      if (event === 'key 62 down') desktop.hangUp();
    };
    const outcome = await run(driver, { action: 'key', text: 'a' }, { action: 'key', text: 'b' }, { action: 'key', text: 'c' });
    expect(outcome).toMatchObject({ ok: false, completed: 1, results: [{}, { index: 1, error: { code: 'desktop_unreachable' } }] });
    expect(desktop.events.filter((event) => event === 'key 61 down')).toHaveLength(1);
  });

  it('that can’t be opened is unreachable after the second time', async () => {
    let dials = 0;
    const dial = (): Promise<Duplex> => {
      dials += 1;
      return Promise.reject(new Error('secret path'));
    };
    const { driver } = driven({}, { dial });
    await expect(take(driver)).rejects.toMatchObject({
      code: 'desktop_unreachable',
      message: expect.not.stringContaining('secret') as string,
    });
    expect(dials).toBe(2);
  });
});

describe('a picture', () => {
  it('is made once while the screen stays the same', async () => {
    let encoded = 0;
    const encode: DesktopPorts['encode'] = (frame, options) => {
      encoded += 1;
      return encodeImage(frame, options);
    };
    const { desktop, driver } = driven({}, { encode });
    const first = await take(driver);
    expect(await take(driver)).toBe(first);
    await take(driver, { format: 'jpeg' });
    desktop.paint(0xff_ff_ff);
    await take(driver, { format: 'jpeg' });
    expect(encoded).toBe(3);
  });

  it('fails once those of its batch have more than 16 MB in sum', async () => {
    const encode: DesktopPorts['encode'] = async ({ width, height }, { format }) => ({
      format,
      width,
      height,
      data: Buffer.alloc(6 << 20),
    });
    const { driver } = driven({}, { encode });
    expect(await run(driver, ...[1, 2, 3, 4].map(() => ({ action: 'screenshot' })))).toMatchObject({
      ok: false,
      completed: 2,
      results: [{}, {}, { index: 2, ok: false, error: { code: 'payload_too_large' } }],
    });
  });

  it('fails in a batch whose pictures get no memory', async () => {
    const { driver } = driven();
    const order = { batchFor: async () => batchOf({ action: 'screenshot' }), reserveImage: () => false };
    expect(await driver.run(order, never)).toMatchObject({ results: [{ error: { code: 'payload_too_large' } }] });
  });

  it('has room in memory while it is taken, of the size that the screen has got meanwhile', async () => {
    const reserved: number[] = [];
    let inUse = 0;
    const { desktop, driver } = driven(
      {},
      {
        reserve: async (bytes) => {
          if (reserved.length === 1) desktop.resize(400, 300);
          reserved.push(bytes);
          inUse += 1;
          return () => void (inUse -= 1);
        },
      },
    );
    await take(driver);
    expect(driver.keptBytes).toBeGreaterThan(320 * 240 * 4);
    expect(await take(driver)).toMatchObject({ width: 400, height: 300 });
    expect([reserved, inUse]).toEqual([[320 * 240 * 5, 320 * 240 * 5, 400 * 300 * 5], 0]);
    driver.evictFrames();
    expect(driver.keptBytes).toBe(0);
  });

  it('moves no pointer and releases no button, also after a lost connection', async () => {
    const { desktop, driver } = driven();
    await run(driver, { action: 'left_mouse_down', coordinate: [12, 34] });
    desktop.hangUp();
    await take(driver);
    expect(desktop.events.at(-1)).toBe('pointer 12,34 1');
  });

  it('is taken without the pointer on a connection of its own', async () => {
    const { desktop, driver } = driven();
    await take(driver);
    await take(driver, { cursor: false });
    await take(driver, { cursor: false });
    expect(desktop.connections).toBe(2);
  });

  it('fails for a part that is no longer on a screen that has become smaller', async () => {
    const { desktop, driver } = driven();
    const batch = batchOf({ action: 'zoom', region: [100, 100, 300, 200] });
    await take(driver);
    desktop.resize(200, 150);
    await until('the new size', async () => ((await take(driver)).width === 200 ? true : undefined));
    expect(await runBatch(driver, batch)).toMatchObject({
      ok: false,
      results: [{ error: { code: 'coordinate_out_of_bounds' } }],
    });
  });
});
