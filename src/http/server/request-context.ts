import type { IncomingMessage, ServerResponse } from 'node:http';

import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { prefers } from '../requests/accept.ts';
import { endAtShutdown } from '../requests/endless-responses.ts';
import { contextOf, type IdempotentAttempt, type MooringRequest } from '../requests/request.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import { invalidField, ProblemError } from '../../kernel/errors/problem-error.ts';
import { noteWritten, type CommandContext } from '../../kernel/context/command-context.ts';
import { credentialOf } from '../auth/credential.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import { parseIfMatch } from '../responses/etag.ts';
import { decodeCursor, encodeCursor, type CursorValues, type SortValues } from '../responses/paging.ts';
import { parsePrefer } from '../responses/prefer.ts';

/** The number of items of a page by default. */
const PAGE_ITEMS = 50;

/**
 * One request of a route: what the caller sends besides the path, the query and the body, and the head of the response. No other code
 * outside this folder sees the request or the response of the framework.
 */
export class RequestContext {
  constructor(
    private readonly request: FastifyRequest & MooringRequest,
    private readonly reply: FastifyReply,
  ) {}

  /** The caller. Throws on a public route, which has none. */
  get caller(): Caller {
    if (this.request.caller === undefined) throw new Error('a public route has no caller');
    return this.request.caller;
  }

  get accountId(): string {
    return this.caller.accountId;
  }

  /** The context of this call's commands. */
  get context(): CommandContext {
    return contextOf(this.request);
  }

  get requestId(): string {
    return this.request.requestId;
  }

  /** The revisions at which the caller allows the write (`If-Match`); null allows any. */
  get ifMatch(): number[] | null {
    return parseIfMatch(this.request.headers['if-match']);
  }

  /**
   * The seconds that the caller prefers to wait; null if the caller does not request it. Read it before anything is written: it throws
   * `invalid_request` if the header is invalid.
   */
  get wait(): number | null {
    return parsePrefer(this.request.headers.prefer);
  }

  /** The try under the caller's `Idempotency-Key` that this request is; null without a key. */
  get attempt(): IdempotentAttempt | null {
    return this.request.idempotentAttempt ?? null;
  }

  /**
   * A UUID that is the same for every try under the caller's `Idempotency-Key`, or null without one. Ids are derived from it, so that
   * nothing is created twice if a try died after its append and before its response.
   */
  get seed(): string | null {
    return this.attempt?.id ?? null;
  }

  /** The key or token that the caller sent. */
  get credential(): string {
    return credentialOf(this.request);
  }

  /** The last event that the reader of a stream received before it lost its connection. */
  get lastEventId(): string | undefined {
    const id = this.request.headers['last-event-id'];
    return typeof id === 'string' ? id : undefined;
  }

  /** Keeps this request from being ended when it revokes its own credential, which ends the other requests under it. */
  outliveCredential(): void {
    this.request.outlivesCredential = true;
  }

  /** The request's headers, with lower-case names. */
  get headers(): Readonly<Record<string, string | string[] | undefined>> {
    return this.request.headers;
  }

  /** The bytes of the body, on a route that accepts any media type. */
  get rawBody(): Buffer {
    const { body } = this.request;
    return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
  }

  /** The address at which the caller reached the service. */
  get origin(): string {
    return `${this.request.protocol}://${this.request.host}`;
  }

  /** Returns whether the `Accept` header names the media type. */
  accepts(mediaType: string): boolean {
    return prefers(this.request.headers.accept ?? '', mediaType);
  }

  /** Releases the memory of the request's body, for a request that waits long and has stored it. */
  releaseBody(): void {
    this.request.body = undefined;
  }

  /** The value is true if the caller requests only the headers of the response. */
  get isHead(): boolean {
    return this.request.method === 'HEAD';
  }

  /**
   * The value is false if the query contains `wake=false`: a container that sleeps is not woken for the request. Throws `invalid_request`.
   */
  get mayWake(): boolean {
    const { wake = 'true' } = this.request.query as { wake?: unknown };
    if (wake !== 'true' && wake !== 'false') throw invalidField('wake', 'must be true or false');
    return wake === 'true';
  }

  /** Returns a header of the request that occurs once. */
  header(name: 'range' | 'if-range'): string | undefined {
    const value = this.request.headers[name];
    return typeof value === 'string' ? value : undefined;
  }

  /** Sets the status of the response, in place of the one that the route declares. */
  setStatus(status: number): void {
    void this.reply.status(status);
  }

  /** Sets any other header of the response. */
  setHeader(name: string, value: string): void {
    void this.reply.header(name, value);
  }

  /** Sets the ETag to the revision of the resource's stream. */
  setRevision(revision: number): void {
    this.setHeader('etag', `"${revision}"`);
  }

  /** Sets the ETag to the revision of the state that the response shows. The caller's next read is not older than that state. */
  setState({ revision, position }: { revision: number; position: Position }): void {
    this.setRevision(revision);
    this.notePosition(position);
  }

  /** Notes up to where the response shows what there is: the caller's next read is not older. */
  notePosition(position: Position): void {
    noteWritten(this.context, position);
  }

  /** Sets the header that reports that a sleeping agent was woken for this request. */
  setAgentWoken(): void {
    this.setHeader('x-agent-woken', 'true');
  }

  /** Sets the header that reports that the response was delayed as the caller preferred. */
  setPreferenceApplied(): void {
    this.setHeader('preference-applied', 'wait');
  }

  /**
   * Returns the size of the page that the query requests, 50 by default, and the place at which it begins: the sort values of these kinds
   * in its cursor, or null. Throws `invalid_request` for a cursor that does not belong to the list.
   */
  page<const Kinds extends readonly (keyof SortValues)[]>(
    { limit = PAGE_ITEMS, cursor }: { limit?: number; cursor?: string },
    ...kinds: Kinds
  ): { limit: number; place: CursorValues<Kinds> | null } {
    return { limit, place: decodeCursor(cursor, ...kinds) };
  }

  /** Links to the next page, which begins after the place: the same address with another cursor. */
  linkNextPage(place: readonly (string | number)[]): void {
    const [path = '', query = ''] = this.request.url.split('?');
    const parameters = new URLSearchParams(query);
    parameters.set('cursor', encodeCursor(place));
    this.setHeader('link', `<${path}?${parameters.toString()}>; rel="next"`);
  }

  /** Links to the next page if this page is full. `placeOf` returns the sort values of its last item. */
  linkAfter<T>(items: readonly T[], limit: number, placeOf: (last: T) => readonly (string | number)[]): void {
    const last = items.at(-1);
    if (items.length === limit && last !== undefined) this.linkNextPage(placeOf(last));
  }

  /**
   * Detaches the upgraded connection from the framework. The request counts as running until the connection closes, which a stop of the
   * service does not wait for.
   */
  hijack(): void {
    this.reply.hijack();
    this.reply.raw.statusCode = 101;
    endAtShutdown(this.request.server.server, this.request.raw.socket);
  }

  /** The request as Node received it, for a route that reads or passes on its body as it comes, or upgrades its connection. */
  get incoming(): IncomingMessage {
    return this.request.raw;
  }

  /** The path and query by which the request was routed, and those that the caller requested, which a server may rewrite. */
  get urls(): { routed: string; asked: string } {
    const { url, originalUrl } = this.request;
    return { routed: url, asked: originalUrl };
  }

  /** The caller's address, and the scheme and host by which it reached the service, as reported by trusted proxies. */
  get reachedBy(): { address: string; protocol: string; host: string } {
    const { ip, protocol, host } = this.request;
    return { address: ip, protocol, host };
  }

  /**
   * Begins a response that is passed on as it arrives, with these headers and no others: names and values in turn. An event stream is cut
   * when the service stops.
   */
  beginResponse(status: number, headers: readonly string[], isEventStream: boolean): ServerResponse {
    const { raw } = this.reply;
    // If these headers are refused, the framework can still send another response.
    raw.writeHead(status, headers as string[]);
    this.reply.hijack();
    raw.flushHeaders();
    if (isEventStream) endAtShutdown(this.request.server.server, raw);
    return raw;
  }

  /** The value is true once the connection has closed. */
  get isClosed(): boolean {
    return this.reply.raw.destroyed;
  }

  /** Runs the listener when the response is complete, or the connection breaks. */
  onClose(listener: () => void): void {
    this.reply.raw.once('close', listener);
  }

  /** Returns a signal that aborts when the response is complete, or the connection breaks. */
  goneSignal(): AbortSignal {
    const gone = new AbortController();
    const abort = () => gone.abort(new ProblemError('invalid_request', 'The caller closed the connection.'));
    this.onClose(abort);
    if (this.isClosed) abort();
    return gone.signal;
  }

  /** Cuts the response, for a reader that is too slow. */
  disconnect(): void {
    this.reply.raw.destroy();
  }
}

/** Injects the context of the request as the last parameter of a route. */
export const CurrentRequest = createParamDecorator((_: unknown, context: ExecutionContext): RequestContext => {
  const http = context.switchToHttp();
  return new RequestContext(http.getRequest(), http.getResponse());
});
