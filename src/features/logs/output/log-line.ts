import type { LogLine } from '../../../runtime/runtime.ts';
import type { CapturedLine, LogLevel } from './logs.events.ts';

/** The levels by name. This is a map, because an agent may name its level `constructor`. */
const levels = new Map<string, LogLevel>([
  ['trace', 'info'],
  ['debug', 'info'],
  ['info', 'info'],
  ['notice', 'info'],
  ['warn', 'warning'],
  ['warning', 'warning'],
  ['error', 'error'],
  ['err', 'error'],
  ['fatal', 'error'],
  ['critical', 'error'],
  ['panic', 'error'],
]);

/** Returns the level of a number that pino or bunyan writes. */
function levelOfNumber(level: number): LogLevel {
  if (level >= 50) return 'error';
  return level >= 40 ? 'warning' : 'info';
}

/** Reads a line of output: JSON with a level and a message, otherwise text, whose words tell the level if it is on stderr. Never throws. */
export function readLogLine(line: LogLine): CapturedLine {
  const t = millisecondsOf(line.cursor.time);
  const structured = readJsonLine(line.text);
  if (structured !== null) return { t, ...structured };
  return { t, l: line.stream === 'stdout' ? 'info' : levelOfWords(line.text), m: line.text };
}

function readJsonLine(text: string): { l: LogLevel; m: string } | null {
  if (!text.startsWith('{')) return null;
  try {
    const parsed = JSON.parse(text) as Record<string, unknown>;
    const message = parsed.message ?? parsed.msg;
    const { level } = parsed;
    if (typeof message !== 'string') return null;
    if (typeof level === 'number') return { l: levelOfNumber(level), m: message };
    return typeof level === 'string' ? { l: levels.get(level.toLowerCase()) ?? 'info', m: message } : null;
  } catch {
    return null;
  }
}

function levelOfWords(text: string): LogLevel {
  if (/\b(error|exception|fatal|panic|traceback)\b|Error\b/i.test(text)) return 'error';
  return /\bwarn(ing)?\b/i.test(text) ? 'warning' : 'info';
}

/** Returns the line that replaces one that the store refuses. */
export function leftOut(line: LogLine): CapturedLine {
  return { t: millisecondsOf(line.cursor.time), l: 'warning', m: 'A line of the output could not be stored and was left out here.' };
}

/** Returns the engine's timestamp, cut from nanoseconds to milliseconds; 1970 if it is invalid. */
function millisecondsOf(time: string): string {
  const parsed = new Date(time.replace(/(\.\d{3})\d*/, '$1'));
  return Number.isNaN(parsed.getTime()) ? new Date(0).toISOString() : parsed.toISOString();
}
