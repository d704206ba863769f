import type { IncomingHttpHeaders } from 'node:http';

import { TextPieces } from '../../kernel/text/text-pieces.ts';
import { fitToBytes } from './fitting.ts';
import { toolName } from './tool-request.ts';
import { SHOWN_BYTES_MAX, type Tool } from './tool.ts';

type Content = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string };

/** The result of a tool call, as MCP clients see it. */
export interface ToolResult {
  content: Content[];
  isError?: true;
}

/** A response of the service, read completely or as far as results can show it. */
export interface ToolResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** The value is true if the body was not read completely. */
  isCut: boolean;
}

/** The media types of images that models can read. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** The text of an empty result. */
const EMPTY = 'There is nothing to show.';

export function textResult(text: string, notes: readonly string[] = []): ToolResult {
  return { content: [text, ...(notes.length > 0 ? [notes.join('\n')] : [])].map((each) => ({ type: 'text', text: each })) };
}

export function failureResult(problem: Readonly<Record<string, unknown>>, notes: readonly string[] = []): ToolResult {
  return { ...textResult(JSON.stringify(fitToBytes(problem, SHOWN_BYTES_MAX)), notes), isError: true };
}

/** Returns the result of the tool's response. */
export function resultOf(tool: Tool, received: ToolResponse): ToolResult {
  const { status, headers, body } = received;
  const type = mediaTypeOf(headers);
  if (status >= 400) return problemResult(tool, received);
  if (status === 204) return textResult('Done.');
  const nextOffset = headers['x-next-offset'];
  if (nextOffset !== undefined) return outputResult(body, Number(nextOffset));
  // A part of an image can't be shown as an image.
  if (IMAGE_TYPES.includes(type) && status !== 206) return imageResult(received, type);
  // A file that is JSON is shown unchanged.
  if (type === 'application/json' && tool.result !== 'file') return jsonResult(tool, received);
  return bytesResult(received, type);
}

/** Returns the media type of the response without its parameters. */
export function mediaTypeOf({ 'content-type': type = '' }: IncomingHttpHeaders): string {
  return (type.split(';', 1)[0] as string).trim().toLowerCase();
}

/** Returns whether the response is an image. */
export function isImage(headers: IncomingHttpHeaders): boolean {
  return IMAGE_TYPES.includes(mediaTypeOf(headers));
}

function problemResult({ next }: Tool, { status, headers, body }: ToolResponse): ToolResult {
  const { type: _type, title: _title, status: _status, ...problem } = (parsed(body) ?? {}) as Record<string, unknown>;
  const wait = headers['retry-after'];
  const shown = { ...problem, ...(wait === undefined ? {} : { retry_after_seconds: Number(wait) }) };
  if (problem.code === undefined) return failureResult({ code: 'internal_error', detail: `The service answered ${status}.` });
  // A wait that timed out is not a failure: the transition continues.
  if (problem.code === 'wait_timeout') return textResult(JSON.stringify(shown), nextNote(next));
  return failureResult(shown);
}

function jsonResult(tool: Tool, { status, headers, body, isCut }: ToolResponse): ToolResult {
  const value = isCut ? undefined : parsed(body);
  if (value === undefined) return bytesResult({ status, headers, body, isCut: true }, 'text/plain');
  const shown = fitToBytes(value, SHOWN_BYTES_MAX, tool.result === 'log' ? 'last' : 'first');
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

/** Returns a note with the tool to call next. */
export function nextNote(next: string | undefined): string[] {
  return next === undefined ? [] : [`It is not over yet: call ${toolName(next)} to see how it goes on.`];
}

/** Returns the cursor of the next page, which the `Link` header has. */
function nextCursorOf(link: string | string[] | undefined): string | null {
  const target = /^<([^<>]+)>; rel="next"$/.exec(String(link))?.[1];
  return target === undefined ? null : new URL(target, 'http://localhost').searchParams.get('cursor');
}

/** Returns a log entry as a line. */
function lineOf(entry: unknown): string {
  const { timestamp, level, source, message } = entry as Record<string, unknown>;
  return `${String(timestamp)} ${String(level)} ${String(source)} ${String(message)}`;
}

function imageResult({ body, isCut }: ToolResponse, mimeType: string): ToolResult {
  if (isCut) return failureResult({ code: 'payload_too_large', detail: 'The image is too large to be shown.' });
  return { content: [{ type: 'image', data: body.toString('base64'), mimeType }] };
}

/** Returns the bytes of a file as text. A file that is not text is not shown. */
function bytesResult({ headers, body, isCut }: ToolResponse, type: string): ToolResult {
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

/** Returns what a command printed as text, even if it is not valid UTF-8. */
function outputResult(body: Buffer, nextOffset: number): ToolResult {
  const { pending } = textOf(body);
  // If the output ends within a character, its remaining bytes will never arrive.
  const left = body.length > pending ? pending : 0;
  const text = body.subarray(0, body.length - left).toString();
  return textResult(text === '' ? EMPTY : text, [`Go on with offset ${nextOffset - left}.`]);
}

/** Returns the bytes as text, null if they are not UTF-8, and the number of bytes at the end that belong to an incomplete character. */
function textOf(bytes: Buffer): { text: string | null; pending: number } {
  const pieces = new TextPieces();
  const piece = pieces.add(bytes) ?? { text: '' };
  return { text: 'text' in piece ? piece.text : null, pending: pieces.pending };
}

/** Returns the start of the part of a file, and the size of the file; the size is null if the response contains the whole file. */
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
