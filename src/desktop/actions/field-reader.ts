import { toScreen, type ActionError, type ActionErrorCode, type Point, type Region, type Shot, type Size } from './canonical-actions.ts';
import { CHORD_KEYS_MAX, keysymOf, namesOfChord, pressed } from './keysyms.ts';

const COORDINATE_MAX = 8_191;
const PATH_POINTS_MAX = 200;
const KEY_LENGTH_MAX = 40;
const HELD_KEYS_MAX = 10;
const TEXT_LENGTH_MAX = 10_000;
/** The longest value of the field `key`, which contains the names of held keys. */
const KEY_FIELD_LENGTH_MAX = 100;
const DISPLAY_MIN: Size = { width: 320, height: 240 };
const DISPLAY_MAX: Size = { width: 2_560, height: 1_600 };

/** An error, with the code for the whole response. */
export type CodedError = ActionError & { code: ActionErrorCode };

export const defaultShot: Shot = { format: 'png', quality: 80, scale: 1, cursor: true, delayMs: 300 };

/** The location of an object in the body. */
export interface FieldLocation {
  index: number | null;
  /** The path to the object within the action, such as `screenshot.`. */
  prefix: string;
}

/** A JSON object of the caller. */
export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Reads the fields of an object and collects their errors, including fields that were not read. After an error, a read returns some value
 * that is not used. An optional field may be null, as the vendors' models send it.
 */
export class FieldReader {
  private readonly readFields = new Set<string>();

  constructor(
    private readonly object: Json,
    private readonly location: FieldLocation,
    private readonly errors: CodedError[],
    readonly screen: Size,
    /** The size in which the caller gives coordinates. */
    readonly display: Size,
  ) {}

  refuse(field: string, message: string, code: ActionErrorCode = 'invalid_action'): void {
    this.errors.push({ index: this.location.index, field: `${this.location.prefix}${field}`, message, code });
  }

  /** Allows fields without reading them. */
  ignore(...fields: string[]): void {
    for (const field of fields) this.readFields.add(field);
  }

  /** Refuses each field that was neither read nor ignored. */
  end(what: string): void {
    for (const field of Object.keys(this.object)) {
      if (!this.readFields.has(field)) this.refuse(field.slice(0, KEY_LENGTH_MAX), `is not a field of ${what}`);
    }
  }

  has(field: string): boolean {
    return Object.hasOwn(this.object, field) && this.object[field] !== null && this.object[field] !== undefined;
  }

  number(field: string, min: number, max: number, fallback?: number): number {
    const value = this.value(field, fallback);
    if (typeof value === 'number' && value >= min && value <= max) return value;
    if (value !== undefined) this.refuse(field, `must be a number from ${min} to ${max}`);
    return min;
  }

  integer(field: string, min: number, max: number, fallback?: number): number {
    const value = this.value(field, fallback);
    if (isInteger(value, min, max)) return value;
    if (value !== undefined) this.refuse(field, `must be a whole number from ${min} to ${max}`);
    return min;
  }

  choice<T extends string>(field: string, values: readonly [T, ...T[]], fallback?: T): T {
    const value = this.value(field, fallback);
    if (values.includes(value as T)) return value as T;
    if (value !== undefined) this.refuse(field, `must be one of ${values.join(', ')}`);
    return values[0];
  }

  boolean(field: string, fallback: boolean): boolean {
    const value = this.value(field, fallback);
    if (typeof value === 'boolean') return value;
    this.refuse(field, 'must be true or false');
    return fallback;
  }

  /** Reads a text to type. Line ends and tabs are the only control characters that it may contain. */
  text(field: string): string {
    const value = this.value(field);
    if (value === undefined) return '';
    if (!isText(value, TEXT_LENGTH_MAX)) this.refuse(field, `must be a text of at most ${TEXT_LENGTH_MAX} characters`);
    else if (!value.isWellFormed()) this.refuse(field, 'must be well-formed Unicode');
    else if (/[^\P{Cc}\t\n\r]/u.test(value)) this.refuse(field, 'must have no control characters but line ends and tabs');
    else return value;
    return '';
  }

  optionalPoint(field: string): Point | null {
    this.readFields.add(field);
    return this.has(field) ? this.point(field) : null;
  }

  point(field: string): Point {
    return this.pointOf(field, this.value(field));
  }

  /** Reads the fields `x` and `y`. */
  xy(): Point {
    const [x, y] = [this.value('x'), this.value('y')];
    if (x === undefined || y === undefined) return { x: 0, y: 0 };
    return this.pointOf(isInteger(x, 0, COORDINATE_MAX) ? 'y' : 'x', { x, y });
  }

  path(field: string): Point[] {
    const value = this.value(field);
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.length < 2 || value.length > PATH_POINTS_MAX) {
      this.refuse(field, `must be a list of 2 to ${PATH_POINTS_MAX} points`);
      return [];
    }
    return value.map((point, index) => this.pointOf(`${field}[${index}]`, point));
  }

  /** Reads the corners of a region of the screen: its first pixel, and the pixel after its last one. */
  region(field: string): Region {
    const nothing = { x: 0, y: 0, width: 1, height: 1 };
    const value = this.value(field);
    if (value === undefined) return nothing;
    if (!Array.isArray(value) || value.length !== 4 || !value.every((each) => isInteger(each, 0, COORDINATE_MAX))) {
      this.refuse(field, `must be four whole numbers from 0 to ${COORDINATE_MAX}`);
      return nothing;
    }
    const [x0, y0, x1, y1] = value as [number, number, number, number];
    if (x1 <= x0 || y1 <= y0) this.refuse(field, 'must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1');
    else if (x1 > this.display.width || y1 > this.display.height) this.refuseOutside(field);
    else {
      const [right, down] = [this.screen.width / this.display.width, this.screen.height / this.display.height];
      const [x, y] = [Math.floor(x0 * right), Math.floor(y0 * down)];
      return { x, y, width: Math.ceil(x1 * right) - x, height: Math.ceil(y1 * down) - y };
    }
    return nothing;
  }

  /** Reads the keys to hold down, from the first of the fields that is present: a chord, or a list of names. */
  heldKeys(...fields: string[]): number[] {
    this.ignore(...fields);
    const [field, other] = fields.filter((each) => this.has(each));
    if (field === undefined) return [];
    if (other !== undefined) this.refuse(other, `can't be given beside ${field}`);
    const value = this.object[field];
    if (value === '' || (Array.isArray(value) && value.length === 0)) return [];
    if (Array.isArray(value)) return this.keyList(field, HELD_KEYS_MAX);
    const [chord = [], ...more] = this.chords(field);
    if (more.length > 0) this.refuse(field, 'must be one combination of keys');
    return chord;
  }

  /** Reads a text such as `ctrl+s Return`: chords between spaces. */
  chords(field: string): number[][] {
    const value = this.value(field);
    if (value === undefined) return [];
    const lengthMax = field === 'key' ? KEY_FIELD_LENGTH_MAX : TEXT_LENGTH_MAX;
    if (!isText(value, lengthMax)) {
      this.refuse(field, `must be a text of at most ${lengthMax} characters`);
      return [];
    }
    if (value === ' ') return [[0x20]];
    const chords = value.split(' ').filter((chord) => chord !== '');
    if (chords.length === 0) this.refuse(field, 'must name a key');
    const before = this.errors.length;
    const read: number[][] = [];
    for (const chord of chords) {
      read.push(this.chordOf(field, namesOfChord(chord), CHORD_KEYS_MAX));
      // A long text may contain thousands of invalid names. One error is enough.
      if (this.errors.length > before) break;
    }
    return read;
  }

  /** Reads a list of keys that are pressed together. */
  keyList(field: string, keysMax: number): number[] {
    const value = this.value(field);
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.some((name) => typeof name !== 'string' || name === '' || name.length > KEY_LENGTH_MAX)) {
      this.refuse(field, `must be a list of names of keys of at most ${KEY_LENGTH_MAX} characters`);
      return [];
    }
    return this.chordOf(field, value as string[], keysMax);
  }

  /** Reads the requested picture; null for none. */
  shot(field: string): Shot | null {
    this.readFields.add(field);
    if (!this.has(field)) return null;
    const value = this.object[field];
    if (typeof value === 'boolean') return value ? defaultShot : null;
    if (!isObject(value)) {
      this.refuse(field, 'must be true, false or an object');
      return null;
    }
    const options = this.inside(field, value);
    const shot: Shot = {
      format: options.choice('format', ['png', 'jpeg', 'webp'], defaultShot.format),
      quality: options.integer('quality', 1, 100, defaultShot.quality),
      scale: options.number('scale', 0.1, 1, defaultShot.scale),
      cursor: options.boolean('cursor', defaultShot.cursor),
      delayMs: options.integer('delay_ms', 0, 5_000, defaultShot.delayMs),
    };
    options.end('a screenshot');
    return shot;
  }

  /** Reads the size in which the caller sees the screen; null if it is absent. */
  size(field: string): Size | null {
    this.readFields.add(field);
    if (!this.has(field)) return null;
    const value = this.object[field];
    if (!isObject(value)) {
      this.refuse(field, 'must be an object with width and height');
      return null;
    }
    const sides = this.inside(field, value);
    const size = {
      width: sides.integer('width', DISPLAY_MIN.width, DISPLAY_MAX.width),
      height: sides.integer('height', DISPLAY_MIN.height, DISPLAY_MAX.height),
    };
    sides.end('a size');
    return size;
  }

  private inside(field: string, value: Json): FieldReader {
    const prefix = `${this.location.prefix}${field}.`;
    return new FieldReader(value, { index: this.location.index, prefix }, this.errors, this.screen, this.display);
  }

  /** Returns undefined and records an error if the field is absent and there is no fallback. */
  private value(field: string, fallback?: unknown): unknown {
    this.readFields.add(field);
    if (this.has(field)) return this.object[field];
    if (fallback === undefined) this.refuse(field, 'is missing');
    return fallback;
  }

  /** Reads `[x, y]` or `{x, y}`. */
  private pointOf(field: string, value: unknown): Point {
    const nothing = { x: 0, y: 0 };
    if (value === undefined) return nothing;
    const isPair = Array.isArray(value) ? value.length === 2 : isObject(value) && Object.keys(value).length === 2;
    const [x, y] = Array.isArray(value) ? (value as unknown[]) : isObject(value) ? [value['x'], value['y']] : [];
    if (!isPair || !isInteger(x, 0, COORDINATE_MAX) || !isInteger(y, 0, COORDINATE_MAX)) {
      this.refuse(field, `must be two whole numbers from 0 to ${COORDINATE_MAX}`);
      return nothing;
    }
    if (x < this.display.width && y < this.display.height) return toScreen({ x, y }, this.display, this.screen);
    this.refuseOutside(field);
    return nothing;
  }

  private refuseOutside(field: string): void {
    const { width, height } = this.display;
    this.refuse(field, `is outside of the display of ${width}x${height} pixels`, 'coordinate_out_of_bounds');
  }

  private chordOf(field: string, names: string[], keysMax: number): number[] {
    if (names.length === 0 || names.length > keysMax) this.refuse(field, `must be a combination of 1 to ${keysMax} keys`);
    const keysyms = names.slice(0, keysMax).map((name) => {
      const keysym = keysymOf(name);
      if (keysym === null)
        this.refuse(field, `names a key that is unknown: ${JSON.stringify(name.slice(0, KEY_LENGTH_MAX))}`, 'unknown_key');
      return keysym ?? 0;
    });
    return pressed(names, keysyms);
  }
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

/** Returns whether the value is a text of at most that many characters. A character may take two units of a string, like an emoji. */
function isText(value: unknown, lengthMax: number): value is string {
  if (typeof value !== 'string' || value.length > 2 * lengthMax) return false;
  return value.length <= lengthMax || Array.from(value).length <= lengthMax;
}
