import { stripVTControlCharacters } from 'node:util';
import type { OutputStream } from '../../../runtime/runtime.ts';
import type { LogLevel } from './logs.events.ts';

/**
 * The names of levels: of syslog and winston, zap, slog, Python, Rust's tracing, Java, .NET and Google Cloud. This is a map, because an agent
 * may name its level `constructor`.
 */
const NAMES = new Map<string, LogLevel>([
  ...named('info', 'trace debug verbose silly fine finer finest config http info information informational notice success default'),
  ...named('warning', 'warn warning'),
  ...named('error', 'error err severe fatal critical crit alert emergency emerg panic dpanic failure'),
]);

function named(level: LogLevel, names: string): [string, LogLevel][] {
  return names.split(' ').map((name) => [name, level]);
}

/** Returns the level that a program has named, or given as a number of pino or bunyan, also in quotes; null if it is not known. */
export function levelNamed(level: unknown): LogLevel | null {
  if (typeof level === 'number') return levelOfNumber(level);
  if (typeof level !== 'string') return null;
  if (/^\d{1,3}$/.test(level)) return levelOfNumber(Number(level));
  // Go's slog writes a level between two names as `WARN+1`.
  return (
    NAMES.get(
      level
        .trim()
        .toLowerCase()
        .replace(/[+-]\d{1,3}$/, ''),
    ) ?? null
  );
}

function levelOfNumber(level: number): LogLevel {
  if (level >= 50) return 'error';
  return level >= 40 ? 'warning' : 'info';
}

/** The characters that may stand before a level: brackets, and a time, in which `T` and `Z` are letters. */
const BEFORE_LEVEL = /^(?:[^A-Za-z]|(?<=\d)[TZ](?=[\d\s\],|]|$))*/;
/** A first word that is a level by its form: in capitals, or before a colon or bracket. */
const FIRST_WORD = /^(?:([A-Z]+)(?![\w.-])|([A-Za-z]+)(?=[:\])|]))/;
/** The first characters of a line of glog and klog: `E0312 12:00:00.000000`. */
const GLOG = /^([IWEF])\d{4} \d\d:\d\d:/;
const GLOG_LEVELS: Record<string, LogLevel> = { I: 'info', W: 'warning', E: 'error', F: 'error' };

/** Returns the level of text: on stdout `info`; on stderr that with which the line begins, else the one that its words speak of. */
export function levelOfText(text: string, stream: OutputStream): LogLevel {
  if (stream === 'stdout') return 'info';
  const [, letter] = GLOG.exec(text) ?? [];
  if (letter !== undefined) return GLOG_LEVELS[letter] as LogLevel;
  const beginning = stripVTControlCharacters(text.slice(0, 200));
  const [, capitals, other] = FIRST_WORD.exec(beginning.slice(BEFORE_LEVEL.exec(beginning)?.[0].length)) ?? [];
  return NAMES.get((capitals ?? other ?? '').toLowerCase()) ?? levelOfWords(text);
}

function levelOfWords(text: string): LogLevel {
  if (/\b(error|exception|fatal|panic|traceback)\b|Error\b|\bERR!/i.test(text)) return 'error';
  return /\bwarn(ing)?\b/i.test(text) ? 'warning' : 'info';
}
