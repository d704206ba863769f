import type { CanonicalAction, PointerButton } from './canonical-actions.ts';
import { CHORD_KEYS_MAX } from './keysyms.ts';
import { defaultShot, type FieldReader } from './field-reader.ts';

const REPEAT_MAX = 100;
/** The most chords of one action: as many as a text may have characters. */
const CHORDS_MAX = 10_000;
const SECONDS_MAX = 60;
const DELAY_MS_MAX = 200;
const NOTCHES_MAX = 50;
const SCROLL_PIXELS_MAX = 5_000;
/** The approximate number of pixels that one notch of a wheel scrolls. */
const NOTCH_PIXELS = 100;
/** The duration of OpenAI's `wait`, which has no parameter for it. */
const WAIT_SECONDS = 2;

type Builder = (fields: FieldReader) => CanonicalAction;

function click(button: PointerButton, count: 1 | 2 | 3): Builder {
  return (fields) => ({
    kind: 'click',
    at: fields.optionalPoint('coordinate'),
    button,
    count,
    hold: fields.heldKeys('key', 'text', 'keys'),
  });
}

const scrollDirections = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] } as const;

/**
 * All versions of Anthropic's vocabulary, with the name of an action in `action` or, within the toolset, in `name`. `paste` is an extension
 * of the service.
 */
const anthropic: Record<string, Builder> = {
  screenshot: (fields) => ({ kind: 'screenshot', shot: fields.shot('screenshot') ?? { ...defaultShot } }),
  zoom: (fields) => ({ kind: 'zoom', region: fields.region('region'), shot: fields.shot('screenshot') ?? { ...defaultShot } }),
  left_click: click('left', 1),
  right_click: click('right', 1),
  middle_click: click('middle', 1),
  double_click: click('left', 2),
  triple_click: click('left', 3),
  left_mouse_down: (fields) => ({ kind: 'press', at: fields.optionalPoint('coordinate') }),
  left_mouse_up: (fields) => ({ kind: 'release', at: fields.optionalPoint('coordinate') }),
  mouse_move: (fields) => ({ kind: 'move', at: fields.point('coordinate'), hold: [] }),
  left_click_drag: (fields) => ({
    kind: 'drag',
    from: fields.optionalPoint('start_coordinate'),
    path: [fields.point('coordinate')],
    hold: fields.heldKeys('text', 'keys'),
  }),
  scroll: (fields) => {
    const [x, y] = scrollDirections[fields.choice('scroll_direction', ['up', 'down', 'left', 'right'])];
    const notches = fields.integer('scroll_amount', 0, NOTCHES_MAX);
    const at = fields.optionalPoint('coordinate');
    return { kind: 'scroll', at, dx: x * notches, dy: y * notches, hold: fields.heldKeys('text', 'keys') };
  },
  key: (fields) => {
    const chords = fields.chords('text');
    const repeat = fields.integer('repeat', 1, REPEAT_MAX, 1);
    if (chords.length * repeat > CHORDS_MAX) fields.refuse('repeat', `must press at most ${CHORDS_MAX} combinations in all`);
    return { kind: 'keys', chords, repeat, delayMs: fields.integer('delay_ms', 0, DELAY_MS_MAX, 0) };
  },
  hold_key: (fields) => {
    const [chord = [], ...more] = fields.chords('text');
    if (more.length > 0) fields.refuse('text', 'must be one combination of keys');
    return { kind: 'hold', chord, seconds: fields.number('duration', 0, SECONDS_MAX) };
  },
  type: (fields) => ({
    kind: 'type',
    text: fields.text('text'),
    delayMs: fields.integer('delay_ms', 0, DELAY_MS_MAX, 0),
  }),
  paste: (fields) => ({ kind: 'paste', text: fields.text('text') }),
  wait: (fields) => ({ kind: 'wait', seconds: fields.number('duration', 0, SECONDS_MAX) }),
  cursor_position: () => ({ kind: 'cursor' }),
};

/** OpenAI's vocabulary, with the name of an action in `type`. */
const openai: Record<string, Builder> = {
  click: (fields) => {
    const button = fields.choice('button', ['left', 'right', 'middle', 'wheel', 'back', 'forward'], 'left');
    const at = fields.xy();
    return { kind: 'click', at, button: button === 'wheel' ? 'middle' : button, count: 1, hold: fields.heldKeys('keys') };
  },
  double_click: (fields) => ({ kind: 'click', at: fields.xy(), button: 'left', count: 2, hold: fields.heldKeys('keys') }),
  drag: (fields) => {
    const [from = null, ...path] = fields.path('path');
    return { kind: 'drag', from, path, hold: fields.heldKeys('keys') };
  },
  keypress: (fields) => ({ kind: 'keys', chords: [fields.keyList('keys', CHORD_KEYS_MAX)], repeat: 1, delayMs: 0 }),
  move: (fields) => ({ kind: 'move', at: fields.xy(), hold: fields.heldKeys('keys') }),
  screenshot: (fields) => ({ kind: 'screenshot', shot: fields.shot('screenshot') ?? { ...defaultShot } }),
  scroll: (fields) => {
    const at = fields.xy();
    const [dx, dy] = [scrolledNotches(fields, 'scroll_x'), scrolledNotches(fields, 'scroll_y')];
    return { kind: 'scroll', at, dx, dy, hold: fields.heldKeys('keys') };
  },
  type: (fields) => ({
    kind: 'type',
    text: fields.text('text'),
    delayMs: fields.integer('delay_ms', 0, DELAY_MS_MAX, 0),
  }),
  wait: (fields) => ({ kind: 'wait', seconds: fields.number('duration', 0, SECONDS_MAX, WAIT_SECONDS) }),
};

const vocabularies = { action: anthropic, type: openai };

export type Vocabulary = keyof typeof vocabularies;

export function actionNames(vocabulary: Vocabulary): string[] {
  return Object.keys(vocabularies[vocabulary]);
}

/** Returns the function that builds the action with this name from its fields; null if the vocabulary has no such action. */
export function builderOf(vocabulary: Vocabulary, name: string): Builder | null {
  const builders = vocabularies[vocabulary];
  return Object.hasOwn(builders, name) ? (builders[name] ?? null) : null;
}

/** Returns the number of notches for a number of pixels: at least one unless it is 0. */
function scrolledNotches(fields: FieldReader, field: string): number {
  const pixels = fields.integer(field, -SCROLL_PIXELS_MAX, SCROLL_PIXELS_MAX);
  return pixels === 0 ? 0 : Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) / NOTCH_PIXELS));
}
