/*
 * Calls the tools of models: each call is a request of this process to its own route, with the caller's credential.
 *
 * It owns the bounds on the calls of this process and their time. It does not own what a tool takes (tool-request.ts), the shape of results
 * (tool-results.ts), or the routes, whose access rules hold as they do for any request.
 *
 * Invariants:
 * T1. A call never has more rights than its caller: the route decides.
 * T2. A call ends after the wait of its tool plus a margin, with a result that says so. What it asked for may have been done.
 * T3. The calls of an account are bounded, and so are the bytes that are read of a response. The bytes of images stay reserved until the
 *     client has received the result.
 * T4. A failed call is a result with a problem in it. `run` rejects only if the call itself was ended.
 */

import type { IncomingMessage } from 'node:http';

import { Injectable } from '@nestjs/common';

import { AccountCounter, sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { type OwnRequest, OwnRoutes } from '../../http/server/own-routes.ts';
import { EVENT_STREAM } from '../../http/server/response-streams.ts';
import { toProblem } from '../../http/responses/problems.ts';
import { actionsResult } from './action-results.ts';
import { readChatTurn } from './chat-reply.ts';
import { type Arguments, requestOf, type ToolRoute } from './tool-request.ts';
import { failureResult, isImage, mediaTypeOf, nextNote, type ToolResponse, resultOf, textResult, type ToolResult } from './tool-results.ts';
import { SHOWN_BYTES_MAX, WAIT_SECONDS } from './tool.ts';

const MIB = 1_048_576;
/** T3: the calls of one account that run, or whose results were not received yet. */
export const CALLS_MAX = 16;
/** The most bytes that are read of a JSON response, and of an image. */
const JSON_BYTES_MAX = 2 * MIB;
const IMAGE_BYTES_MAX = 4 * MIB;
/** The most bytes that are read of a JSON response that contains images as text. */
const IMAGES_BYTES_MAX = 8 * MIB;
/** The bytes of images that this process holds until clients have taken them; an account may have 12 MiB of them. */
const IMAGES = sharesOf(64 * MIB, { account: 3 / 16 });

/** The signals of a call. */
export interface CallSignals {
  /** Aborts when the response with the result is complete, or its connection has closed. */
  gone: AbortSignal;
  /** Aborts like `gone`, and earlier if the result is not needed any more. */
  end: AbortSignal;
}

/** One call of a tool. */
interface ToolCall {
  call: RequestContext;
  route: ToolRoute;
  request: OwnRequest;
  gone: AbortSignal;
  /** Aborts with `end`, or when the call times out. */
  signal: AbortSignal;
}

/** Calls tools through their routes on behalf of a caller, and bounds the calls that run at once. */
@Injectable()
export class ToolCalls {
  /** T2: the wait of a call, and the margin on top of it, in seconds. A test sets shorter ones. */
  readonly times = { waitSeconds: WAIT_SECONDS, marginSeconds: 5 };
  private readonly running = new AccountCounter({ account: CALLS_MAX });
  private readonly images = new FairLimiter(IMAGES);

  constructor(private readonly routes: OwnRoutes) {}

  /** Returns the result of the call, also if the call failed. T4 */
  async run(call: RequestContext, route: ToolRoute, given: Arguments, { gone, end }: CallSignals): Promise<ToolResult> {
    const { waitSeconds, marginSeconds } = this.times;
    const time = timeoutSignal((waitSeconds + marginSeconds) * 1_000);
    try {
      this.acquireSlot(call.accountId, gone);
      const request = requestOf(route, given, waitSeconds);
      return await this.result({ call, route, request, gone, signal: AbortSignal.any([end, time]) });
    } catch (error) {
      end.throwIfAborted();
      const why = time.aborted
        ? new ProblemError('reply_timeout', 'The call took too long and was given up. What it asked for may have been done.')
        : error;
      const { type: _type, title: _title, status: _status, ...problem } = toProblem(why, call.requestId).body;
      return failureResult(problem, time.aborted ? nextNote(route.tool.next) : []);
    }
  }

  private result(toolCall: ToolCall): Promise<ToolResult> {
    const { result } = toolCall.route.tool;
    if (result === 'chat') return this.chat(toolCall);
    if (result === 'file') return this.file(toolCall);
    if (result === 'actions') return this.actions(toolCall);
    return this.plain(toolCall, result === 'image' ? { accept: 'image/*' } : {});
  }

  private async plain(toolCall: ToolCall, headers: Record<string, string> = {}): Promise<ToolResult> {
    return resultOf(toolCall.route.tool, await this.readResponse(toolCall, await this.send(toolCall, headers)));
  }

  /** Returns the results of the actions, with a picture. */
  private async actions(toolCall: ToolCall): Promise<ToolResult> {
    const received = await this.readResponse(toolCall, await this.send(toolCall));
    return received.status === 200 ? actionsResult(received) : resultOf(toolCall.route.tool, received);
  }

  /** Returns the start of the file that fits into a result, the part that the model requests, or the whole of an image. */
  private async file(toolCall: ToolCall): Promise<ToolResult> {
    if (toolCall.request.headers.range !== undefined) return this.plain(toolCall);
    const response = await this.send(toolCall, { range: `bytes=0-${SHOWN_BYTES_MAX - 1}` });
    const isEmpty = response.statusCode === 416;
    const isPartOfImage = response.statusCode === 206 && isImage(response.headers);
    if (!isEmpty && !isPartOfImage) return resultOf(toolCall.route.tool, await this.readResponse(toolCall, response));
    response.destroy();
    return this.plain(toolCall);
  }

  /** Sends a message, and waits for the reply. The message stays in delivery when the wait ends. */
  private async chat(toolCall: ToolCall): Promise<ToolResult> {
    const { route, signal } = toolCall;
    const wait = AbortSignal.any([signal, timeoutSignal(this.times.waitSeconds * 1_000)]);
    const response = await this.send(toolCall, { accept: EVENT_STREAM });
    if (mediaTypeOf(response.headers) !== EVENT_STREAM) return resultOf(route.tool, await this.readResponse(toolCall, response));
    const { event, data } = await readChatTurn(response, wait);
    const headers = { 'content-type': 'application/json' };
    const status = event === 'error' ? Number(data.status) : 200;
    if (event !== 'accepted') return resultOf(route.tool, { status, headers, body: Buffer.from(JSON.stringify(data)), isCut: false });
    return textResult(JSON.stringify({ ...data, response: null }), ['The agent has not replied yet.', ...nextNote(route.tool.next)]);
  }

  private send({ call, request, signal }: ToolCall, headers: Record<string, string> = {}): Promise<IncomingMessage> {
    return this.routes.send(call, { ...request, headers: { accept: 'application/json, */*', ...request.headers, ...headers } }, signal);
  }

  private async readResponse({ call, route, gone, signal }: ToolCall, response: IncomingMessage): Promise<ToolResponse> {
    const { statusCode: status = 500, headers } = response;
    const hasImages = route.tool.result === 'actions';
    const bytesMax = isImage(headers) ? IMAGE_BYTES_MAX : hasImages ? IMAGES_BYTES_MAX : JSON_BYTES_MAX;
    const bytes = Math.min(Number(headers['content-length'] ?? bytesMax), bytesMax);
    const held = isImage(headers) ? Math.ceil((bytes * 4) / 3) : bytes;
    if (isImage(headers) || hasImages) whenAborted(gone, await this.images.acquire({ account: call.accountId }, signal, held));
    const { body, isCut } = await read(response, bytesMax);
    return { status, headers, body, isCut };
  }

  /** Counts the call until the signal aborts. Throws `rate_limited` if its account has too many. */
  private acquireSlot(account: string, gone: AbortSignal): void {
    const release = this.running.tryAcquire({ account });
    if (release === null)
      throw new ProblemError('rate_limited', `This account has ${CALLS_MAX} calls of tools under way.`, { retryAfterSeconds: 1 });
    whenAborted(gone, release);
  }
}

function whenAborted(signal: AbortSignal, listener: () => void): void {
  if (signal.aborted) listener();
  else signal.addEventListener('abort', listener, { once: true });
}

/** Returns the body of the response, of which at most `bytesMax` bytes are read. */
async function read(response: IncomingMessage, bytesMax: number): Promise<{ body: Buffer; isCut: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    chunks.push(chunk as Buffer);
    bytes += (chunk as Buffer).length;
    // Leaving the loop destroys the response.
    if (bytes > bytesMax) break;
  }
  return { body: Buffer.concat(chunks).subarray(0, bytesMax), isCut: bytes > bytesMax };
}
