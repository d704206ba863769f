import { setMaxListeners } from 'node:events';
import { text } from 'node:stream/consumers';

import { Injectable } from '@nestjs/common';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { OpenStreams } from '../../http/limits/open-streams.ts';
import { isAllowedOrigin } from '../../http/requests/origins.ts';
import { EVENT_STREAM, ResponseStreams, type Streamed } from '../../http/server/response-streams.ts';
import type { SessionTools } from './mcp-session.ts';
import { CALLS_MAX, ToolCalls } from './tool-calls.service.ts';
import { ToolCatalogue } from './tool-catalogue.service.ts';

/** Handles requests of the Model Context Protocol. They are independent: nothing is kept from one to the next. */
@Injectable()
export class Mcp {
  constructor(
    private readonly config: Config,
    private readonly openStreams: OpenStreams,
    private readonly streams: ResponseStreams,
    private readonly catalogue: ToolCatalogue,
    private readonly calls: ToolCalls,
  ) {}

  /** Handles the message or messages. Throws `origin_not_allowed` for a page of another site, and `invalid_request` for too many messages. */
  async handle(message: unknown, call: RequestContext): Promise<string | Streamed | undefined> {
    const { origin, host } = call.headers;
    if (origin !== undefined && !isAllowedOrigin(String(origin), String(host), this.config))
      throw new ProblemError('origin_not_allowed', 'Pages of this origin may not call tools; the operator can allow it.');
    if (Array.isArray(message) && message.length > CALLS_MAX)
      throw new ProblemError('invalid_request', `There may be ${CALLS_MAX} messages in one request at most.`);
    const isStream = call.accepts(EVENT_STREAM) && requestsProgress(message);
    if (isStream) this.openStreams.add(call);
    const { status, headers, body } = await this.respond(message, call, isStream);
    call.setStatus(status);
    if (body === null) return undefined;
    if (headers.get('content-type') === EVENT_STREAM) return this.streams.relayed(call, body);
    call.setHeader('content-type', 'application/json; charset=utf-8');
    call.setHeader('cache-control', 'no-store');
    return text(body);
  }

  private async respond(message: unknown, call: RequestContext, isStream: boolean): Promise<Response> {
    const { waitSeconds, marginSeconds } = this.calls.times;
    const timeoutMs = (waitSeconds + 2 * marginSeconds) * 1_000;
    const gone = call.goneSignal();
    // Each call adds a listener, and a second one for an image. Node warns of a leak above ten.
    setMaxListeners(3 * CALLS_MAX, gone);
    closeAfter(call, gone, 2 * timeoutMs);
    // The time limit is needed because a call that its client cancels gets no result, and the response waits for the results of all calls.
    const time = timeoutSignal(timeoutMs);
    const end = AbortSignal.any([gone, time]);
    const { 'mcp-protocol-version': protocolVersion } = call.headers;
    const tools: SessionTools = {
      list: () => this.catalogue.listFor(call.caller),
      call: (name, given, signal) => {
        const route = this.catalogue.find(name);
        return route && this.calls.run(call, route, given, { gone, end: AbortSignal.any([end, signal]) });
      },
    };
    // The library is loaded at the first call, because it takes time and memory.
    const { handleRequest } = await import('./mcp-session.ts');
    try {
      return await raceAbort(handleRequest({ message, protocolVersion: protocolVersion?.toString(), isStream }, tools, end), end);
    } catch (error) {
      if (time.aborted) throw new ProblemError('reply_timeout', 'Not all calls of the request were answered in time.');
      throw error;
    }
  }
}

/** Closes the connection after the time, in ms. Otherwise a client that does not read its results would keep its account's slots for ever. */
function closeAfter(call: RequestContext, gone: AbortSignal, ms: number): void {
  const timer = setTimeout(() => call.disconnect(), ms).unref();
  gone.addEventListener('abort', () => clearTimeout(timer), { once: true });
}

/** Returns whether a call among the messages requests progress notifications. */
function requestsProgress(message: unknown): boolean {
  return [message].flat().some((one) => {
    const { params } = (one ?? {}) as { params?: { _meta?: { progressToken?: unknown } } };
    const { _meta: meta } = params ?? {};
    return meta?.progressToken !== undefined;
  });
}
