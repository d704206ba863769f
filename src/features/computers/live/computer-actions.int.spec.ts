import fc from 'fast-check';

import { callTo, DesktopFixture, KnownComputers } from '../../../../test/support/desktop-pool.ts';
import { FakeRfbServer } from '../../../../test/support/fake-rfb-server.ts';
import { untilTrue } from '../../../../test/support/until.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { BatchOutcome } from '../../../desktop/driver/batch-runner.ts';

const beds: DesktopFixture[] = [];

function bed(computers?: KnownComputers): { bed: DesktopFixture; desktop: FakeRfbServer; run: Run } {
  const desktop = new FakeRfbServer({ width: 320, height: 240 });
  const made = new DesktopFixture(() => desktop.dial(), computers);
  beds.push(made);
  return { bed: made, desktop, run: (body, call = {}) => made.actions.run(callTo('one', call), body, (outcome) => outcome) };
}

type Run = (body: unknown, call?: Parameters<typeof callTo>[1]) => Promise<BatchOutcome>;

afterEach(async () => {
  for (const each of beds.splice(0)) await each.close();
});

const fields = fc.constantFrom('coordinate', 'text', 'x', 'y', 'duration', 'scroll_amount', 'keys', 'region', 'screenshot', 'path');
const names = fc.constantFrom('left_click', 'type', 'key', 'scroll', 'zoom', 'wait', 'click', 'drag', 'keypress', 'move', 'nothing');
const anything = fc.oneof(
  fc.anything({ maxDepth: 2, withNullPrototype: false }),
  fc.dictionary(fc.oneof(fields, fc.string()), fc.anything({ maxDepth: 2 })),
  fc.record({ action: names, coordinate: fc.anything({ maxDepth: 1 }), text: fc.anything({ maxDepth: 1 }) }, { requiredKeys: ['action'] }),
  fc.record(
    { type: names, x: fc.anything({ maxDepth: 1 }), y: fc.integer(), keys: fc.anything({ maxDepth: 1 }) },
    { requiredKeys: ['type'] },
  ),
  fc.record({ name: names, input: fc.dictionary(fields, fc.anything({ maxDepth: 1 })) }),
);
/** An action that nobody can take for a good one, whatever else it has. */
const malformed = fc.oneof(
  anything.filter((value) => typeof value !== 'object' || value === null || Array.isArray(value)),
  anything.filter((value) => typeof value === 'object' && value !== null).map((value) => ({ ...value, 'no such field': 1 })),
);

describe('malformed actions', () => {
  it('are refused with their place and field before a key is pressed or the computer is woken', async () => {
    const { bed: each, desktop, run } = bed();
    each.computers.asleep.add('one');
    const good = { action: 'key', text: 'a' };
    await fc.assert(
      fc.asyncProperty(malformed, fc.nat({ max: 5 }), async (bad, place) => {
        const actions: unknown[] = Array.from({ length: 6 }, () => good);
        actions[place] = bad;
        const refusal: unknown = await run({ actions }).catch((error: unknown) => error);
        if (!(refusal instanceof ProblemError)) throw new Error('it was not refused');
        expect(['invalid_action', 'coordinate_out_of_bounds', 'unknown_key', 'batch_too_long']).toContain(refusal.code);
        const { errors = [] } = refusal.facts;
        expect(errors.length).toBeGreaterThan(0);
        for (const error of errors) expect(error).toEqual({ index: place, field: expect.any(String), message: expect.any(String) });
      }),
      { numRuns: 500 },
    );
    expect([desktop.connections, desktop.events, each.computers.asleep.has('one'), each.acts.acts]).toEqual([0, [], true, []]);
  });

  it('are reported in a sentence with the first five of them', async () => {
    const { run } = bed();
    const actions = Array.from({ length: 7 }, () => ({ action: 'mouse_move', coordinate: [320, 0] }));
    await expect(run({ actions })).rejects.toMatchObject({
      code: 'coordinate_out_of_bounds',
      message: expect.stringMatching(
        /^actions\[0\]\.coordinate is outside of the display of 320x240 pixels; actions\[1\].*; and 2 more\.$/,
      ) as string,
    });
  });
});

describe('a batch', () => {
  it('of a stranger’s computer is not found', async () => {
    const { bed: each, run } = bed();
    each.computers.owners.set('one', 'somebody else');
    await expect(run({ type: 'wait' })).rejects.toMatchObject({ code: 'computer_not_found' });
  });

  it('wakes a computer, and keeps it awake meanwhile', async () => {
    const { bed: each, run } = bed();
    each.computers.asleep.add('one');
    let woken = 0;
    const outcome = await each.actions.run(callTo('one', { onWoken: () => (woken += 1) }), { action: 'key', text: 'a' }, ({ ok }) => ({
      ok,
      held: each.computers.held,
    }));
    expect([outcome, woken, each.computers.held]).toEqual([{ ok: true, held: 1 }, 1, 0]);
    each.computers.asleep.add('one');
    await expect(run({ type: 'wait' }, { wake: false })).rejects.toMatchObject({ code: 'computer_asleep' });
  });

  it('is refused while a person controls the computer alone, also one that waited for its turn', async () => {
    const { bed: each, desktop, run } = bed();
    const first = run({ action: 'wait', duration: 0.1 });
    await untilTrue(() => each.computers.held === 1);
    const second = run({ action: 'key', text: 'a' });
    each.inControl.add('one');
    await expect(second).rejects.toMatchObject({ code: 'human_in_control' });
    await first.catch(() => undefined);
    expect(desktop.events.filter((event) => event.startsWith('key'))).toEqual([]);
  });

  it('ends when a person takes control in the middle of it, with what it held down released', async () => {
    const { bed: each, desktop, run } = bed();
    const actions = [
      { action: 'key', text: 'a' },
      { action: 'hold_key', text: 'ctrl', duration: 60 },
      { action: 'key', text: 'b' },
    ];
    const batch = run({ actions, screenshot: true });
    await untilTrue(() => desktop.events.includes('key ffe3 down'));
    each.inControl.add('one');
    expect(await batch).toMatchObject({
      ok: false,
      completed: 1,
      results: [{ ok: true }, { index: 1, action: 'hold_key', ok: false, error: { code: 'human_in_control' } }],
      screenshot: { format: 'png' },
    });
    expect(desktop.events.filter((event) => event.startsWith('key')).slice(2)).toEqual(['key ffe3 down', 'key ffe3 up']);
  });

  it('is refused as busy when as many wait as may', async () => {
    const { bed: each, run } = bed();
    const giveUp = new AbortController();
    const batches = Array.from({ length: 9 }, () => run({ action: 'wait', duration: 60 }, { signal: giveUp.signal }));
    await untilTrue(() => each.computers.held === 9);
    await expect(run({ type: 'wait' })).rejects.toMatchObject({ code: 'busy', facts: { retryAfterSeconds: 1 } });
    giveUp.abort(new Error('gone'));
    expect((await Promise.allSettled(batches)).every(({ status }) => status === 'rejected')).toBe(true);
    expect(await run({ action: 'key', text: 'a' })).toMatchObject({ ok: true });
  });

  it('is checked again if the real screen has another size than the settings', async () => {
    const { desktop, run } = bed(new KnownComputers({ width: 640, height: 480 }));
    await expect(run({ action: 'mouse_move', coordinate: [500, 10] })).rejects.toMatchObject({ code: 'coordinate_out_of_bounds' });
    expect(await run({ action: 'mouse_move', coordinate: [319, 239] })).toMatchObject({ ok: true, cursor: { x: 319, y: 239 } });
    expect(desktop.events.at(-1)).toBe('pointer 319,239 0');
  });

  it('is counted by the names of its actions, with the pictures in it, before it is answered', async () => {
    const { bed: each, run } = bed();
    await run({
      actions: [{ action: 'type', text: 'secret words' }, { type: 'screenshot' }, { action: 'key', text: 'a', screenshot: true }],
      screenshot: true,
    });
    expect(each.acts.acts).toMatchObject([
      { computerId: 'one', actor: 'a model', actions: { type: 1, screenshot: 1, key: 1 }, batches: 1, screenshots: 3 },
    ]);
    expect(JSON.stringify(each.acts.acts)).not.toContain('secret');
  });

  it('that was not begun is not counted', async () => {
    const { bed: each, run } = bed();
    each.inControl.add('one');
    await run({ action: 'key', text: 'a' }).catch(() => undefined);
    expect(each.acts.acts).toEqual([]);
  });

  it('fails as a whole if its first look at the screen gets no answer, and tells what was done otherwise', async () => {
    const { desktop, run } = bed();
    desktop.onEvent = (event) => {
      if (event === 'key 61 up') desktop.hangUp();
    };
    expect(
      await run({
        actions: [
          { action: 'key', text: 'b' },
          { action: 'key', text: 'a' },
        ],
      }),
    ).toMatchObject({
      ok: false,
      completed: 1,
      results: [{ ok: true }, { ok: false, error: { code: 'desktop_unreachable' } }],
    });
  });
});

describe('a picture', () => {
  const options = { format: 'png', quality: 80, scale: 1, region: null, cursor: true } as const;

  it('returns the size of the whole screen in addition to that of the region', async () => {
    const { bed: each } = bed();
    const part = { ...options, scale: 0.5, region: { x: 10, y: 20, width: 100, height: 50 } };
    expect(await each.screens.capture(callTo('one'), part)).toMatchObject({
      image: { format: 'png', width: 50, height: 25 },
      screen: { width: 320, height: 240 },
    });
  });

  it('of a part that is not on the screen is refused', async () => {
    const { bed: each } = bed();
    const outside = { ...options, region: { x: 300, y: 0, width: 21, height: 10 } };
    await expect(each.screens.capture(callTo('one'), outside)).rejects.toMatchObject({
      code: 'coordinate_out_of_bounds',
      facts: { errors: [{ field: 'region', message: 'is outside of the display of 320x240 pixels' }] },
    });
  });

  it('is counted', async () => {
    const { bed: each } = bed();
    await each.screens.capture(callTo('one'), options);
    await each.recorder.beforeApplicationShutdown();
    expect(each.acts.acts).toMatchObject([{ batches: 0, screenshots: 1 }]);
  });
});
