import type { IncomingHttpHeaders } from 'node:http';

import { TextPieces } from '../../kernel/text/text-pieces.ts';
import { fitted } from './fitting.ts';
import { toolName } from './tool-request.ts';
import { SHOWN_BYTES_MAX, type Tool } from './tool.ts';

type Content = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string };

/** The result of a tool's call, as clients of MCP get it. */
export interface ToolResult {
  content: Content[];
  isError?: true;
}

/** A response of the service that was read, in whole or as far as results can show it. */
export interface Received {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** True if the body goes on. */
  isCut: boolean;
}

/** The media types of the images that models can look at. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** The text of a result that has nothing else to show. */
const EMPTY = 'There is nothing to show.';

export function textResult(text: string, notes: readonly string[] = []): ToolResult {
  return { content: [text, ...(notes.length > 0 ? [notes.join('\n')] : [])].map((each) => ({ type: 'text', text: each })) };
}

export function failureResult(problem: Readonly<Record<string, unknown>>, notes: readonly string[] = []): ToolResult {
  return { ...textResult(JSON.stringify(fitted(problem, SHOWN_BYTES_MAX)), notes), isError: true };
}

/** Returns the result of the tool's response. */
export function resultOf(tool: Tool, received: Received): ToolResult {
  const { status, headers, body } = received;
  const type = mediaTypeOf(headers);
  if (status >= 400) return problemResult(tool, received);
  if (status === 204) return textResult('Done.');
  const nextOffset = headers['x-next-offset'];
  if (nextOffset !== undefined) return outputResult(body, Number(nextOffset));
  // A part of an image is none.
  if (IMAGE_TYPES.includes(type) && status !== 206) return imageResult(received, type);
  // A file may be JSON, too, and then it is shown as it is.
  if (type === 'application/json' && tool.result !== 'file') return jsonResult(tool, received);
  return bytesResult(received, type);
}

/** Returns the media type of the response without its parameters. */
export function mediaTypeOf({ 'content-type': type = '' }: IncomingHttpHeaders): string {
  return (type.split(';', 1)[0] as string).trim().toLowerCase();
}

/** Returns true if the response is an image. */
export function isImage(headers: IncomingHttpHeaders): boolean {
  return IMAGE_TYPES.includes(mediaTypeOf(headers));
}

function problemResult({ next }: Tool, { status, headers, body }: Received): ToolResult {
  const { type: _type, title: _title, status: _status, ...problem } = (parsed(body) ?? {}) as Record<string, unknown>;
  const wait = headers['retry-after'];
  const shown = { ...problem, ...(wait === undefined ? {} : { retry_after_seconds: Number(wait) }) };
  if (problem.code === undefined) return failureResult({ code: 'internal_error', detail: `The service answered ${status}.` });
  // A wait that was too short is no failure: the agent is on its way.
  if (problem.code === 'wait_timeout') return textResult(JSON.stringify(shown), nextNote(next));
  return failureResult(shown);
}

function jsonResult(tool: Tool, { status, headers, body, isCut }: Received): ToolResult {
  const value = isCut ? undefined : parsed(body);
  if (value === undefined) return bytesResult({ status, headers, body, isCut: true }, 'text/plain');
  const shown = fitted(value, SHOWN_BYTES_MAX, tool.result === 'log' ? 'last' : 'first');
  const notes: string[] = [];
  if (Array.isArray(value) && Array.isArray(shown) && shown.length < value.length)
    notes.push(`Only ${shown.length} of ${value.length} items are shown, since there is no room for more: ask for fewer with limit.`);
  else if (shown !== value) notes.push('Long texts are cut, since there is no room for more.');
  const cursor = nextCursorOf(headers.link);
  if (cursor !== null) notes.push(`There are more: go on with cursor ${JSON.stringify(cursor)}.`);
  const isSettled = tool.waits !== true || headers['preference-applied'] !== undefined;
  if (!isSettled) notes.push(...nextNote(tool.next));
  const text = tool.result === 'log' && Array.isArray(shown) ? shown.map(lineOf).join('\n') : JSON.stringify(shown);
  return textResult(text === '' ? EMPTY : text, notes);
}

/** Returns the note that names the tool to call next. */
export function nextNote(next: string | undefined): string[] {
  return next === undefined ? [] : [`It is not over yet: call ${toolName(next)} to see how it goes on.`];
}

/** Returns the cursor of the next page, which the `Link` header has. */
function nextCursorOf(link: string | string[] | undefined): string | null {
  const target = /^<([^<>]+)>; rel="next"$/.exec(String(link))?.[1];
  return target === undefined ? null : new URL(target, 'http://localhost').searchParams.get('cursor');
}

/** Returns an entry of a log as a line. */
function lineOf(entry: unknown): string {
  const { timestamp, level, source, message } = entry as Record<string, unknown>;
  return `${String(timestamp)} ${String(level)} ${String(source)} ${String(message)}`;
}

function imageResult({ body, isCut }: Received, mimeType: string): ToolResult {
  if (isCut) return failureResult({ code: 'payload_too_large', detail: 'The image is too large to be shown.' });
  return { content: [{ type: 'image', data: body.toString('base64'), mimeType }] };
}

/** Returns the bytes of a file as a text. One that is no text is not shown. */
function bytesResult({ headers, body, isCut }: Received, type: string): ToolResult {
  const { start, size } = rangeOf(headers);
  const shown = body.subarray(0, SHOWN_BYTES_MAX);
  const goesOn = isCut || shown.length < body.length || (size !== null && start + body.length < size);
  const { text, pending } = textOf(shown);
  if (text === null || shown.includes(0) || (pending > 0 && !goesOn))
    return textResult(`This is no text: ${size ?? `${body.length}${isCut ? ' or more' : ''}`} bytes of ${type}.`);
  const end = start + shown.length - pending;
  if (size === null || end >= size) return textResult(text === '' ? EMPTY : text, goesOn ? ['There is more, which has no room here.'] : []);
  return textResult(text, [`These are the bytes ${start} to ${end - 1} of ${size}: go on with range "bytes=${end}-".`]);
}

/** Returns what a command printed as a text, whatever it is. */
function outputResult(body: Buffer, nextOffset: number): ToolResult {
  const { pending } = textOf(body);
  // A command may end within a character, whose rest would be waited for in vain.
  const left = body.length > pending ? pending : 0;
  const text = body.subarray(0, body.length - left).toString();
  return textResult(text === '' ? EMPTY : text, [`Go on with offset ${nextOffset - left}.`]);
}

/** Returns the bytes as a text, which is null if they are no UTF-8, and the number of bytes at the end that begin a character. */
function textOf(bytes: Buffer): { text: string | null; pending: number } {
  const pieces = new TextPieces();
  const piece = pieces.add(bytes) ?? { text: '' };
  return { text: 'text' in piece ? piece.text : null, pending: pieces.pending };
}

/** Returns where the part of a file begins, and the size of the file, which is null if the response has all of it. */
function rangeOf({ 'content-range': range }: IncomingHttpHeaders): { start: number; size: number | null } {
  const [, start, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(range ?? '') ?? [];
  return { start: Number(start ?? 0), size: size === undefined ? null : Number(size) };
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}
