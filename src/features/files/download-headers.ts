import { ProblemError } from '../../kernel/errors/problem-error.ts';

/** A part of a file: the offsets of its first and last byte. */
export interface ByteRange {
  start: number;
  end: number;
}

/** The content types by file extension. No browser executes them, since every file is sent as an attachment. */
const TYPES: Record<string, string> = {
  csv: 'text/csv; charset=utf-8',
  gif: 'image/gif',
  gz: 'application/gzip',
  html: 'text/html; charset=utf-8',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  log: 'text/plain; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  tar: 'application/x-tar',
  txt: 'text/plain; charset=utf-8',
  wav: 'audio/wav',
  webp: 'image/webp',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  zip: 'application/zip',
};

/** Returns the content type of a file of that name. */
export function contentTypeOf(name: string): string {
  const ending = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
  return Object.hasOwn(TYPES, ending) ? (TYPES[ending] as string) : 'application/octet-stream';
}

/**
 * Returns the Content-Disposition of an attachment (RFC 6266): its name in ASCII, with `_` for characters that the quoted form can't
 * contain, and the full name (RFC 8187) if they differ.
 */
export function dispositionOf(name: string): string {
  const whole = name.toWellFormed();
  const plain = whole.replaceAll(/[^\x20-\x7e]|["\\%/]/g, '_');
  const quoted = `attachment; filename="${plain}"`;
  if (plain === whole) return quoted;
  const encoded = encodeURIComponent(whole).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
  return `${quoted}; filename*=UTF-8''${encoded}`;
}

/**
 * Returns the part of a file that a Range header requests; null for the whole file, also if the header is malformed or requests several
 * parts. Throws `range_not_satisfiable` for a part that starts after the end of the file.
 */
export function rangeOf(header: string | undefined, size: number): ByteRange | null {
  const [, first, last] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return null;
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  if (start >= size) throw new ProblemError('range_not_satisfiable', `The file has ${size} bytes.`, { members: { size } });
  return { start, end: first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1) };
}

/** Two changes of a file that are this many seconds apart have different times. */
const SAME_TIME_SECONDS = 2;

/**
 * Returns the ETag of a file's content, computed from its size and modification time (Unix seconds). It is weak for a file that changed
 * just now (`nowMs`), because another change may have the same time.
 */
export function etagOf(size: number, mtime: number, nowMs: number): string {
  const tag = `"${size.toString(36)}-${mtime.toString(36)}"`;
  return nowMs / 1_000 - mtime >= SAME_TIME_SECONDS ? tag : `W/${tag}`;
}

/** Returns whether a Range applies to the current state of the file: If-Range has its ETag or its modification time. */
export function rangeApplies(ifRange: string | undefined, etag: string, lastModified: string): boolean {
  return ifRange === undefined || (!etag.startsWith('W/') && (ifRange === etag || ifRange === lastModified));
}
