import type { BetaComputerMemberInput, BetaComputerMemberName } from '@anthropic-ai/sdk/resources/beta/messages/messages';
import fc from 'fast-check';
import type { ResponseComputerToolCall, ComputerAction } from 'openai/resources/responses/responses';

import type { Batch, CanonicalAction, NormalisedBatch, Point } from './canonical-actions.ts';
import { BATCH_ACTIONS_MAX, BATCH_SECONDS_MAX, normaliseBatch, secondsOf } from './normalise-batch.ts';

const screen = { width: 1280, height: 800 };
const at = { x: 100, y: 200 };
const [control, shift, alt, superKey] = [0xffe3, 0xffe1, 0xffe9, 0xffeb] as const;
const png = { format: 'png', quality: 80, scale: 1, cursor: true, delayMs: 300 } as const;

function batchOf(body: unknown, size = screen): Batch {
  const normalised = normaliseBatch(body, size);
  if (!normalised.ok) throw new Error(JSON.stringify(normalised.errors));
  return normalised.batch;
}

function actionOf(body: unknown): CanonicalAction | undefined {
  return batchOf(body).steps[0]?.action;
}

function refusalOf(body: unknown): { code: string; errors: unknown[] } {
  const normalised = normaliseBatch(body, screen);
  if (normalised.ok) throw new Error('it was accepted');
  return normalised;
}

function clickAt(place: Point | null, button: 'left' | 'middle' | 'right' | 'back' | 'forward', count: 1 | 2 | 3 = 1, hold: number[] = []) {
  return { kind: 'click', at: place, button, count, hold };
}

/** One input for each member of Anthropic's toolset, in its own types: the earlier versions send the same fields beside `action`. */
const anthropic: [BetaComputerMemberName, BetaComputerMemberInput, object][] = [
  ['screenshot', {}, { kind: 'screenshot', shot: png }],
  ['zoom', { region: [10, 20, 110, 70] }, { kind: 'zoom', region: { x: 10, y: 20, width: 100, height: 50 }, shot: png }],
  ['left_click', { coordinate: [100, 200] }, clickAt(at, 'left')],
  ['left_click', { coordinate: null, text: null }, clickAt(null, 'left')],
  ['left_click', { coordinate: [0, 0], text: 'ctrl+shift' }, clickAt({ x: 0, y: 0 }, 'left', 1, [control, shift])],
  ['right_click', { coordinate: [100, 200] }, clickAt(at, 'right')],
  ['middle_click', {}, clickAt(null, 'middle')],
  ['double_click', { coordinate: [100, 200] }, clickAt(at, 'left', 2)],
  ['triple_click', { coordinate: [1279, 799] }, clickAt({ x: 1279, y: 799 }, 'left', 3)],
  ['left_mouse_down', {}, { kind: 'press', at: null }],
  ['left_mouse_up', {}, { kind: 'release', at: null }],
  ['mouse_move', { coordinate: [100, 200] }, { kind: 'move', at, hold: [] }],
  [
    'left_click_drag',
    { start_coordinate: [1, 2], coordinate: [100, 200], text: 'alt' },
    { kind: 'drag', from: { x: 1, y: 2 }, path: [at], hold: [alt] },
  ],
  ['scroll', { coordinate: [100, 200], scroll_direction: 'down', scroll_amount: 3 }, { kind: 'scroll', at, dx: 0, dy: 3, hold: [] }],
  ['scroll', { scroll_direction: 'left', scroll_amount: 2, text: 'shift' }, { kind: 'scroll', at: null, dx: -2, dy: 0, hold: [shift] }],
  ['key', { text: 'ctrl+s' }, { kind: 'keys', chords: [[control, 0x73]], repeat: 1, delayMs: 0 }],
  ['key', { text: 'Return Page_Down', repeat: 5 }, { kind: 'keys', chords: [[0xff0d], [0xff56]], repeat: 5, delayMs: 0 }],
  ['hold_key', { text: 'w', duration: 1.5 }, { kind: 'hold', chord: [0x77], seconds: 1.5 }],
  ['type', { text: 'Größe\n' }, { kind: 'type', text: 'Größe\n', delayMs: 0 }],
  ['wait', { duration: 2 }, { kind: 'wait', seconds: 2 }],
  ['cursor_position', {}, { kind: 'cursor' }],
];

/** OpenAI's actions in its own types. Version 6, the last for Node 20, does not know that most of them have keys that are held down. */
type OpenAiAction = ComputerAction & { keys?: string[] | null };
const openai: [OpenAiAction, object][] = [
  [{ type: 'click', button: 'left', x: 100, y: 200 }, clickAt(at, 'left')],
  [{ type: 'click', button: 'wheel', x: 100, y: 200, keys: ['CTRL'] }, clickAt(at, 'middle', 1, [control])],
  [{ type: 'click', button: 'back', x: 100, y: 200, keys: null }, clickAt(at, 'back')],
  [{ type: 'double_click', x: 100, y: 200, keys: [] as string[] }, clickAt(at, 'left', 2)],
  [
    { type: 'drag', path: [{ x: 0, y: 0 }, at] },
    { kind: 'drag', from: { x: 0, y: 0 }, path: [at], hold: [] },
  ],
  [
    { type: 'keypress', keys: ['CTRL', 'SHIFT', 'T'] },
    { kind: 'keys', chords: [[control, shift, 0x54]], repeat: 1, delayMs: 0 },
  ],
  [
    { type: 'move', x: 100, y: 200 },
    { kind: 'move', at, hold: [] },
  ],
  [{ type: 'screenshot' }, { kind: 'screenshot', shot: png }],
  [
    { type: 'scroll', x: 100, y: 200, scroll_x: -30, scroll_y: 250 },
    { kind: 'scroll', at, dx: -1, dy: 3, hold: [] },
  ],
  [
    { type: 'scroll', x: 100, y: 200, scroll_x: 0, scroll_y: 0 },
    { kind: 'scroll', at, dx: 0, dy: 0, hold: [] },
  ],
  [
    { type: 'type', text: 'hello' },
    { kind: 'type', text: 'hello', delayMs: 0 },
  ],
  [{ type: 'wait' }, { kind: 'wait', seconds: 2 }],
];

describe("an action of Anthropic's", () => {
  it.each(anthropic)('%s is the same alone, in a batch, as a tool’s use and as a member of the toolset: %j', (name, input, expected) => {
    const use = { type: 'tool_use', id: 'toolu_1' };
    const forms = [
      { action: name, ...input },
      { name: 'computer', input: { action: name, ...input }, ...use },
      { name, input },
      { name, input, toolset_name: 'computer', caller: { type: 'direct' }, ...use },
    ];
    for (const form of forms) {
      expect(actionOf(form)).toEqual(expected);
      expect(batchOf({ actions: [form] }).steps).toEqual([{ name, action: expected, shot: null, display: screen }]);
    }
  });
});

describe("an action of OpenAI's", () => {
  it.each(openai)('%j is the same alone and in a batch', (action, expected) => {
    expect(actionOf(action)).toEqual(expected);
    const call: Pick<ResponseComputerToolCall, 'actions'> = { actions: [action, action] };
    expect(batchOf(call).steps.map(({ name, action: each }) => [name, each])).toEqual([
      [action.type, expected],
      [action.type, expected],
    ]);
  });
});

describe('an action of our own', () => {
  it('pastes a text, presses with pauses, and holds keys as the first demo did', () => {
    expect(actionOf({ action: 'paste', text: 'a\tb' })).toEqual({ kind: 'paste', text: 'a\tb' });
    expect(actionOf({ action: 'key', text: 'Down', repeat: 2, delay_ms: 50 })).toMatchObject({ repeat: 2, delayMs: 50 });
    expect(actionOf({ action: 'left_click', coordinate: [1, 2], key: 'super' })).toMatchObject({ hold: [superKey] });
    expect(actionOf({ type: 'drag', path: [[1, 2], [3, 4], { x: 5, y: 6 }] })).toMatchObject({
      path: [
        { x: 3, y: 4 },
        { x: 5, y: 6 },
      ],
    });
  });
});

describe('the pictures that a caller wants', () => {
  it('are taken once at the end of a single action, and after each action of a batch that requests it', () => {
    const shot = { format: 'jpeg', quality: 50, scale: 0.5, cursor: false, delay_ms: 0 };
    const wanted = { format: 'jpeg', quality: 50, scale: 0.5, cursor: false, delayMs: 0 };
    expect(batchOf({ action: 'key', text: 'a', screenshot: shot })).toMatchObject({ shot: wanted, steps: [{ shot: null }] });
    const batch = batchOf({
      actions: [
        { action: 'key', text: 'a', screenshot: true },
        { type: 'wait', screenshot: false },
      ],
      screenshot: shot,
    });
    expect(batch).toMatchObject({ shot: wanted, steps: [{ shot: png }, { shot: null }] });
  });

  it('are those of a screenshot itself if its options are given', () => {
    const batch = batchOf({ action: 'screenshot', screenshot: { format: 'webp' } });
    expect(batch).toMatchObject({ shot: null, steps: [{ action: { kind: 'screenshot', shot: { ...png, format: 'webp' } } }] });
  });
});

describe('the size in which a caller sees the screen', () => {
  it('defines the meaning of its coordinates', () => {
    const display = { width: 640, height: 400 };
    const body = {
      actions: [
        { type: 'move', x: 0, y: 0 },
        { type: 'move', x: 639, y: 399 },
        { action: 'zoom', region: [0, 0, 640, 400] },
      ],
      display,
    };
    const { steps, display: said } = batchOf(body);
    expect(said).toEqual(display);
    expect(steps.map(({ action }) => action)).toEqual([
      { kind: 'move', at: { x: 1, y: 1 }, hold: [] },
      { kind: 'move', at: { x: 1279, y: 799 }, hold: [] },
      expect.objectContaining({ region: { x: 0, y: 0, width: 1280, height: 800 } }),
    ]);
  });

  it('bounds them instead of the screen', () => {
    const display = { width: 2560, height: 1600 };
    expect(actionOf({ type: 'move', x: 2559, y: 1599, display })).toEqual({ kind: 'move', at: { x: 1279, y: 799 }, hold: [] });
    expect(refusalOf({ type: 'move', x: 1000, y: 0, display: { width: 640, height: 400 } })).toMatchObject({
      code: 'coordinate_out_of_bounds',
    });
  });
});

describe('a body that is refused', () => {
  it.each([
    ['is no object', 'click', 0, 'action', 'invalid_action'],
    ['is empty', {}, 0, 'action', 'invalid_action'],
    ['has no known action', { action: 'constructor' }, 0, 'action', 'invalid_action'],
    ['has an action of the other vocabulary', { action: 'keypress', keys: ['a'] }, 0, 'action', 'invalid_action'],
    ['has both action and type', { action: 'wait', type: 'wait', duration: 1 }, 0, 'type', 'invalid_action'],
    ['lacks a field', { type: 'click', x: 1 }, 0, 'y', 'invalid_action'],
    ['has a field of another action', { action: 'left_click', duration: 1 }, 0, 'duration', 'invalid_action'],
    ['has a field of nobody', { actions: [{ type: 'wait' }, { type: 'wait', __proto: 1 }] }, 1, '__proto', 'invalid_action'],
    ['has a fraction of a pixel', { type: 'move', x: 1.5, y: 1 }, 0, 'x', 'invalid_action'],
    ['has a negative pixel', { type: 'move', x: 1, y: -1 }, 0, 'y', 'invalid_action'],
    ['is right of the screen', { type: 'move', x: 1280, y: 0 }, 0, 'y', 'coordinate_out_of_bounds'],
    ['is below the screen', { action: 'left_click', coordinate: [0, 800] }, 0, 'coordinate', 'coordinate_out_of_bounds'],
    ['drags out of the screen', { type: 'drag', path: [at, { x: 1, y: 900 }] }, 0, 'path[1]', 'coordinate_out_of_bounds'],
    ['zooms out of the screen', { action: 'zoom', region: [0, 0, 1281, 10] }, 0, 'region', 'coordinate_out_of_bounds'],
    ['zooms into nothing', { action: 'zoom', region: [5, 5, 5, 10] }, 0, 'region', 'invalid_action'],
    ['presses an unknown key', { action: 'key', text: 'ctrl+nosuchkey' }, 0, 'text', 'unknown_key'],
    ['presses too many keys', { type: 'keypress', keys: ['a', 'b', 'c', 'd', 'e', 'f'] }, 0, 'keys', 'invalid_action'],
    ['presses no key', { action: 'key', text: '  ' }, 0, 'text', 'invalid_action'],
    ['holds an unknown key', { type: 'move', x: 1, y: 1, keys: ['NOPE'] }, 0, 'keys', 'unknown_key'],
    ['holds keys of two fields', { action: 'left_click', key: 'alt', text: 'ctrl' }, 0, 'text', 'invalid_action'],
    ['types a control character', { action: 'type', text: 'a\u001b[2J' }, 0, 'text', 'invalid_action'],
    ['types half a character', { action: 'type', text: '\ud83d' }, 0, 'text', 'invalid_action'],
    ['types too much', { action: 'type', text: 'x'.repeat(10_001) }, 0, 'text', 'invalid_action'],
    ['scrolls too far', { action: 'scroll', scroll_direction: 'up', scroll_amount: 51 }, 0, 'scroll_amount', 'invalid_action'],
    ['scrolls nowhere', { action: 'scroll', scroll_direction: 'away', scroll_amount: 1 }, 0, 'scroll_direction', 'invalid_action'],
    ['wants a picture of no format', { action: 'screenshot', screenshot: { format: 'gif' } }, 0, 'screenshot.format', 'invalid_action'],
    [
      'sees a huge screen',
      { actions: [{ type: 'wait' }], display: { width: 9_999, height: 600 } },
      null,
      'display.width',
      'invalid_action',
    ],
    ['has no actions', { actions: [] }, null, 'actions', 'invalid_action'],
    ['has too many actions', { actions: Array.from({ length: 51 }, () => ({ type: 'wait' })) }, null, 'actions', 'invalid_action'],
    ['has a tool’s use without input', { name: 'left_click' }, 0, 'input', 'invalid_action'],
    ['has a tool’s use with two names', { name: 'key', input: { action: 'key', text: 'a' } }, 0, 'input.action', 'invalid_action'],
    ['waits too long', { action: 'wait', duration: 61 }, 0, 'duration', 'invalid_action'],
    ['waits too long in sum', { actions: [60, 60, 1].map((duration) => ({ action: 'wait', duration })) }, 2, 'duration', 'batch_too_long'],
    ['types too slowly', { action: 'type', text: 'x'.repeat(1_000), delay_ms: 200 }, 0, 'delay_ms', 'batch_too_long'],
  ])('because it %s says where', (_, body, index, field, code) => {
    const refusal = refusalOf(body);
    expect(refusal.code).toBe(code);
    expect(refusal.errors).toContainEqual({ index, field, message: expect.any(String) as string });
  });

  it('lists everything that is wrong in all actions, the malformed first of all', () => {
    const body = {
      actions: [
        { type: 'move', x: 5_000, y: 1 },
        { action: 'key', text: 'nosuchkey' },
        { type: 'wait', x: 1 },
      ],
    };
    expect(refusalOf(body)).toMatchObject({ code: 'invalid_action', errors: [{ index: 0 }, { index: 1 }, { index: 2, field: 'x' }] });
  });

  it('names the size of the display that the coordinate is outside of', () => {
    expect(refusalOf({ type: 'move', x: 1280, y: 0 }).errors).toEqual([
      { index: 0, field: 'y', message: 'is outside of the display of 1280x800 pixels' },
    ]);
  });
});

const names = [
  'screenshot',
  'zoom',
  'left_click',
  'left_click_drag',
  'scroll',
  'key',
  'hold_key',
  'type',
  'wait',
  'move',
  'click',
  'drag',
  'keypress',
];
const fields = [
  'coordinate',
  'start_coordinate',
  'x',
  'y',
  'button',
  'path',
  'scroll_amount',
  'scroll_x',
  'text',
  'keys',
  'duration',
  'region',
  'display',
];
const value = fc.oneof(
  fc.integer({ min: -10, max: 9_000 }),
  fc.array(fc.integer({ min: -1, max: 2_000 }), { maxLength: 5 }),
  fc.constantFrom(
    'left',
    'ctrl+s',
    'down',
    'a',
    null,
    true,
    {},
    [
      [1, 2],
      [3, 4],
    ],
    [at, at],
    { width: 640, height: 480 },
  ),
  fc.jsonValue(),
);
const anyAction = fc
  .record({
    verb: fc.constantFrom('action', 'type', 'name'),
    name: fc.constantFrom(...names),
    rest: fc.dictionary(fc.constantFrom(...fields), value),
  })
  .map(({ verb, name, rest }) => (verb === 'name' ? { name, input: rest } : { [verb]: name, ...rest }));
const wellFormed = fc.constantFrom(...anthropic.map(([action, input]) => ({ action, ...input })), ...openai.map(([action]) => action));

describe('any input of a caller', () => {
  it('a malformed action is refused with its index and its field, and nothing is thrown', () => {
    const breakage = fc.constantFrom<(action: object) => unknown>(
      (action) => ({ ...action, nonsense: 1 }),
      (action) => ({ ...action, action: 'nonsense' }),
      (action) => ({ ...action, display: 'large' }),
      (action) => [action],
      () => null,
      () => ({ action: 'left_click', coordinate: [1] }),
      () => ({ type: 'click', x: '1', y: 1 }),
      () => ({ name: 'type', input: { text: 7 } }),
    );
    fc.assert(
      fc.property(fc.array(wellFormed, { maxLength: 5 }), wellFormed, breakage, (before, action, broken) => {
        const normalised = normaliseBatch({ actions: [...before, broken(action)] }, screen);
        if (normalised.ok) throw new Error('it was accepted');
        expect(normalised.errors.length).toBeGreaterThan(0);
        for (const { index, field, message } of normalised.errors) {
          expect(index).toBe(before.length);
          expect(field).not.toBe('');
          expect(message).not.toBe('');
        }
      }),
      { numRuns: 500 },
    );
  });

  it('a batch that is accepted stays inside of the screen and of all bounds', () => {
    const body = fc.oneof(
      anyAction,
      fc.record({ actions: fc.array(fc.oneof(anyAction, wellFormed), { maxLength: 60 }) }),
      fc.record({
        actions: fc.array(wellFormed, { maxLength: 60 }),
        display: fc.constantFrom({ width: 640, height: 400 }, { width: 2_560, height: 1_600 }),
      }),
    );
    fc.assert(
      fc.property(body, (given) => expectBounded(normaliseBatch(given, screen))),
      { numRuns: 1_000 },
    );
  });

  it('any JSON gets a response', () => {
    fc.assert(fc.property(fc.jsonValue(), (given) => expectBounded(normaliseBatch(given, screen))));
  });
});

function expectBounded(normalised: NormalisedBatch): void {
  if (!normalised.ok) {
    expect(normalised.errors.length).toBeGreaterThan(0);
    return;
  }
  const { steps } = normalised.batch;
  expect(steps.length).toBeLessThanOrEqual(BATCH_ACTIONS_MAX);
  expect(steps.reduce((sum, { action }) => sum + secondsOf(action), 0)).toBeLessThanOrEqual(BATCH_SECONDS_MAX);
  for (const { action } of steps) {
    const points = ['at' in action ? action.at : null, ...(action.kind === 'drag' ? [action.from, ...action.path] : [])];
    for (const { x, y } of points.filter((point) => point !== null)) expect(isInside(x, y)).toBe(true);
    if (action.kind === 'zoom') {
      const { region } = action;
      expect(region.width > 0 && region.height > 0 && isInside(region.x + region.width - 1, region.y + region.height - 1)).toBe(true);
    }
  }
}

function isInside(x: number, y: number): boolean {
  return Number.isInteger(x) && Number.isInteger(y) && x >= 0 && y >= 0 && x < screen.width && y < screen.height;
}
