import type { JsonObject } from '../../../eventsourcing/event-store/event-definition.ts';
import type { LogLine } from '../../../runtime/runtime.ts';
import { levelNamed, levelOfText } from './log-level.ts';
import type { CapturedLine, LogLevel } from './logs.events.ts';

/** The deepest nesting of members that become fields. It is less than the store allows, as the event adds levels of its own. */
const FIELDS_DEPTH_MAX = 32;

/**
 * Reads a line of output. JSON with a level and a message becomes an entry whose `fields` are the other members; anything else is text, whose
 * level follows from its stream and words. Never throws.
 */
export function readLogLine(line: LogLine): CapturedLine {
  const t = millisecondsOf(line.cursor.time);
  const parsed = parseObject(line.text);
  const found = parsed === null ? null : structured(parsed);
  if (parsed === null || found === null) return { t, l: levelOfText(line.text, line.stream), m: line.text };
  const { message, fields } = found;
  const l = found.level ?? levelOfText(message, line.stream);
  // A line whose members can't be given back exactly stays as it was printed.
  if (message === '' || !isExact(fields, 1)) return { t, l, m: line.text };
  return { t, l, m: message, ...(Object.keys(fields).length > 0 && { f: fields }) };
}

function parseObject(text: string): JsonObject | null {
  if (!text.startsWith('{')) return null;
  try {
    return JSON.parse(text) as JsonObject;
  } catch {
    return null;
  }
}

type Path = readonly [string] | readonly [string, string] | readonly [string, string, string];

/** The paths at which programs put the level and the message. The first path that holds one counts. */
const LEVELS: readonly Path[] = [['level'], ['severity'], ['levelname'], ['log.level'], ['log', 'level'], ['record', 'level', 'name']];
const MESSAGES: readonly Path[] = [['message'], ['msg'], ['event'], ['fields', 'message'], ['record', 'message']];

/** Returns the level, the message and the other members of a line; null if it lacks one of the first two. A level that is not known is null. */
function structured(line: JsonObject): { level: LogLevel | null; message: string; fields: JsonObject } | null {
  const given = firstOf(line, LEVELS, (value) => typeof value === 'string' || typeof value === 'number');
  const message = firstOf(line, MESSAGES, (value) => typeof value === 'string');
  if (given === null || message === null) return null;
  const level = levelNamed(given.value);
  // A level that is not known is kept as it was given.
  const fields = [message.path, ...(level === null ? [] : [given.path])].reduce(without, line);
  return { level, message: message.value as string, fields };
}

function firstOf(line: JsonObject, places: readonly Path[], holds: (value: unknown) => boolean): { path: Path; value: unknown } | null {
  for (const path of places) {
    const value = path.reduce<unknown>((within, name) => own(within, name), line);
    if (holds(value)) return { path, value };
  }
  return null;
}

/** Returns the object's own member; an agent may name its members as those of every object are named. */
function own(within: unknown, name: string): unknown {
  return typeof within === 'object' && within !== null && Object.hasOwn(within, name) ? (within as JsonObject)[name] : undefined;
}

/** Returns the object without the member at the path, and without an object that this leaves empty. */
function without(line: JsonObject, [name, ...rest]: readonly string[]): JsonObject {
  const { [name as string]: member, ...others } = line;
  if (rest.length === 0 || typeof member !== 'object' || member === null) return others;
  const inner = without(member as JsonObject, rest);
  return Object.keys(inner).length === 0 ? others : { ...line, [name as string]: inner };
}

/** Returns whether a value can be stored and given back as it was printed: JavaScript rounds large whole numbers. */
function isExact(value: unknown, depth: number): boolean {
  if (typeof value === 'number') return Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  return depth <= FIELDS_DEPTH_MAX && Object.values(value).every((each) => isExact(each, depth + 1));
}

/** Returns the replacement for a line that the store refuses. */
export function leftOut(line: LogLine): CapturedLine {
  return { t: millisecondsOf(line.cursor.time), l: 'warning', m: 'A line of the output could not be stored and was left out here.' };
}

/** Returns the engine's timestamp, cut from nanoseconds to milliseconds; 1970 if it is invalid. */
function millisecondsOf(time: string): string {
  const parsed = new Date(time.replace(/(\.\d{3})\d*/, '$1'));
  return Number.isNaN(parsed.getTime()) ? new Date(0).toISOString() : parsed.toISOString();
}
