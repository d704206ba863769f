/*
 * Passes one HTTP request of the public on to an agent, and its response back, as both arrive.
 *
 * It owns both streams of one exchange and their timeouts. It does not own which agent may be reached and its wake (`PublicTraffic`), which
 * headers pass (headers.ts), or WebSockets after their handshake (tunnel.ts).
 *
 * Invariants:
 * X1. No more of either body is in memory than a few pieces: neither side is read faster than the other one is written.
 * X2. The connection to the agent ends with the exchange, however it ends, and with the caller's connection.
 * X3. Before the response has begun, a failure is a problem response. Afterwards the caller's connection breaks, which tells that the body
 *     is not complete.
 * X4. The agent's time to answer runs from the end of the request, so a slow caller does not use it up. Nothing may stand still for longer
 *     than `idleTimeoutMs`.
 * X5. A WebSocket is opened only if the caller asked for one.
 * X6. A whole exchange has both bodies in memory, bounded in bytes and in time. It passes no cookies on, and is never upgraded.
 */

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';

import { onTooManyInformational } from '../../agent-protocol/informational-responses.ts';
import { requestTo } from '../../agent-protocol/agent-connection-pool.ts';
import { type AgentEndpoint, AgentNotLocated } from '../../agent-protocol/agent-endpoint.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { upgradeOf } from '../../http/requests/upgrades.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { headerOf, headersForAgent, headersForCaller, headersOfWhole } from './headers.ts';
import { tunnel } from './tunnel.ts';

/** The timeout for connecting to an agent, in ms. */
const CONNECT_TIMEOUT_MS = 10_000;
/** The most bytes of the headers of an agent's response, and of a chunk's extensions and trailers. */
const HEADER_BYTES_MAX = 64 * 1_024;

export interface ExchangeRequest {
  call: RequestContext;
  endpoint: AgentEndpoint;
  /** The path and query that the agent gets. */
  path: string;
  /** The path under which the caller reaches the agent; null if the agent has a host name of its own. */
  prefix: string | null;
  /** The value is true if the agent was woken for the call. */
  woken: boolean;
  /** The timeout from the end of the request to the beginning of the response, in ms. */
  replyTimeoutMs: number;
  /** The longest time without a byte in either direction, in ms. */
  idleTimeoutMs: number;
  /** Ends a whole exchange. Its reason is the refusal. */
  signal: AbortSignal;
  /** Present if the request was read whole, and its response is passed on whole. */
  whole?: WholeExchange;
}

/** X6: a request that was read whole. */
export interface WholeExchange {
  body: Buffer;
  /** The most bytes of the response's body; a longer one is `agent_failed`. */
  responseBytesMax: number;
}

/** The beginning of an agent's response. */
interface AgentResponse {
  response: IncomingMessage;
  socket: Socket;
  /** The bytes that followed the agent's acceptance of the handshake; null if the response is an ordinary one. */
  head: Buffer | null;
}

/**
 * Passes a request on to an agent, and its response back. Resolves when the exchange is over, however it ended. Throws `agent_failed` and
 * `reply_timeout` if there is no response to pass on.
 */
export async function exchange(order: ExchangeRequest): Promise<void> {
  const { call, endpoint, path, prefix, whole, signal } = order;
  const { method = 'GET', rawHeaders, httpVersion } = call.incoming;
  const coding = headerOf(rawHeaders, 'transfer-encoding');
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    throw new ProblemError('invalid_request', 'The body may have no transfer coding but chunked.');
  const isUpgrade = whole === undefined && upgradeOf(call.incoming) !== null;
  const received = { method, raw: rawHeaders, isUpgrade, prefix, ...(whole === undefined ? {} : { wholeBytes: whole.body.length }) };
  const headers = headersForAgent(received, { ...call.reachedBy, httpVersion, requestId: call.requestId });
  const asking = requestTo(endpoint, { method, path, headers, maxHeaderSize: HEADER_BYTES_MAX });
  asking.on('error', () => undefined);
  call.onClose(() => asking.destroy());
  if (call.isClosed) asking.destroy();
  const end = () => asking.destroy(signal.reason as Error);
  if (whole !== undefined) signal.addEventListener('abort', end);
  try {
    const answered = waitForResponse(asking, order);
    if (whole === undefined) send(call, asking);
    else asking.end(whole.body);
    if (whole === undefined) await passBack(await answered, asking, order);
    else await passBackWhole(await answered, order, whole);
  } finally {
    signal.removeEventListener('abort', end);
    asking.destroy();
    // The rest of the body is read and dropped, or else the caller's next request on the connection would wait for it.
    call.incoming.removeAllListeners('readable').resume();
  }
}

/**
 * X1: sends the body as it arrives. Everything that has arrived is written at once, because a caller may send tiny pieces, each of which costs
 * as much as a large one.
 */
function send({ incoming }: RequestContext, asking: ClientRequest): void {
  const more = () => {
    while (!asking.destroyed && !asking.writableNeedDrain) {
      const bytes = incoming.read() as Buffer | null;
      if (bytes === null) return;
      asking.write(bytes);
    }
  };
  if (upgradeOf(incoming) !== null || !hasBody(incoming)) {
    asking.end();
    return;
  }
  incoming.on('readable', more);
  asking.on('drain', more);
  incoming.once('end', () => asking.end());
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Yields everything that has arrived of a body at once, for the same reason. */
async function* chunksOf(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const bytes of source) yield bytes;
}

/** Waits for the beginning of the response. */
function waitForResponse(asking: ClientRequest, { replyTimeoutMs, idleTimeoutMs }: ExchangeRequest): Promise<AgentResponse> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let isSettled = false;
    const settle = (outcome: () => void) => {
      isSettled = true;
      clearTimeout(timer);
      outcome();
    };
    const fail = (refusal: ProblemError) => {
      if (isSettled) return;
      settle(() => reject(refusal));
      asking.destroy();
    };
    // X3, X4
    const late = () => fail(new ProblemError('reply_timeout', 'The agent did not answer in time.'));
    const unusable = (what: string) => fail(new ProblemError('agent_failed', what));
    timer = setTimeout(() => unusable('The agent can’t be reached.'), CONNECT_TIMEOUT_MS);
    let isConnected = false;
    onConnected(asking, () => {
      isConnected = true;
      clearTimeout(timer);
      asking.setTimeout(idleTimeoutMs, late);
      // X4
      const onSent = () => {
        if (!isSettled) timer = setTimeout(late, replyTimeoutMs);
      };
      if (asking.writableFinished) onSent();
      else asking.once('finish', onSent);
    });
    asking.once('error', (error) => {
      if (error instanceof ProblemError) fail(error);
      else if (!(error instanceof AgentNotLocated))
        unusable(isConnected ? 'The agent broke the connection off.' : 'The agent can’t be reached.');
      else if (!isSettled) settle(() => reject(error.cause));
    });
    asking.once('close', () => unusable('The agent closed the connection without an answer.'));
    onTooManyInformational(asking, () => unusable('The agent sent one informational answer after the other.'));
    asking.once('response', (response) => settle(() => resolve({ response, socket: response.socket, head: null })));
    asking.once('upgrade', (response, socket, head) => settle(() => resolve({ response, socket, head })));
  });
}

/** Calls `connected` once the request has a connection, which may be a reused one. */
function onConnected(asking: ClientRequest, connected: () => void): void {
  asking.once('socket', (socket) => {
    if (socket.connecting) socket.once('connect', connected);
    else connected();
  });
}

async function passBack({ response, socket, head }: AgentResponse, asking: ClientRequest, order: ExchangeRequest): Promise<void> {
  const { call, prefix, woken, idleTimeoutMs } = order;
  const upgrade = upgradeOf(call.incoming);
  const isUpgrade = response.headers.upgrade?.toLowerCase() === 'websocket';
  if (head !== null && (upgrade === null || !isUpgrade))
    throw new ProblemError('agent_failed', 'The agent switched to a protocol that the caller did not ask for.');
  const headers = [...headersForCaller(response.rawHeaders, call.reachedBy.host, prefix), 'X-Request-Id', call.requestId];
  if (woken) headers.push('X-Agent-Woken', 'true');
  if (head !== null && upgrade !== null) {
    call.hijack();
    await tunnel({ caller: upgrade.socket, sent: upgrade.head, agent: socket, answered: head, headers, idleTimeoutMs });
    return;
  }
  // The rest of the request may arrive during the response, but then no other request can follow on the connection.
  if (!call.incoming.complete || upgrade !== null) headers.push('Connection', 'close');
  const isEventStream = response.headers['content-type']?.startsWith('text/event-stream') === true;
  const reply = beginResponse(() => call.beginResponse(response.statusCode ?? 0, headers, isEventStream));
  asking.setTimeout(idleTimeoutMs, () => response.destroy());
  reply.setTimeout(idleTimeoutMs, () => reply.destroy());
  // X3: if one side breaks off, the pipeline closes the connection to the other.
  await pipeline(response, chunksOf, reply).catch(() => undefined);
}

/** X6: reads the response to its end, and passes it on. Throws `agent_failed` and the reason of the signal. */
async function passBackWhole({ response, head }: AgentResponse, order: ExchangeRequest, whole: WholeExchange): Promise<void> {
  const { call, prefix, woken } = order;
  if (head !== null) throw new ProblemError('agent_failed', 'The agent switched to a protocol that the caller did not ask for.');
  const body = await wholeBody(response, order, whole.responseBytesMax);
  const status = response.statusCode ?? 0;
  // These have no body, and the length of a response to HEAD is that of another one.
  const isBodyless = call.isHead || status === 204 || status === 304;
  const headers = headersOfWhole(headersForCaller(response.rawHeaders, call.reachedBy.host, prefix), isBodyless);
  if (!isBodyless) headers.push('Content-Length', String(body.length));
  headers.push('X-Request-Id', call.requestId);
  if (woken) headers.push('X-Agent-Woken', 'true');
  if (!call.incoming.complete) headers.push('Connection', 'close');
  beginResponse(() => call.beginResponse(status, headers, false)).end(isBodyless ? undefined : body);
}

async function wholeBody(response: IncomingMessage, { signal }: ExchangeRequest, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > bytesMax) throw new ProblemError('agent_failed', `The agent’s response has more than ${bytesMax} bytes.`);
      chunks.push(chunk);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof ProblemError ? error : new ProblemError('agent_failed', 'The agent broke the connection off.');
  }
  return Buffer.concat(chunks);
}

/** Begins the response. Throws `agent_failed` if Node refuses its head. */
function beginResponse<T>(begin: () => T): T {
  try {
    return begin();
  } catch (error) {
    throw new ProblemError('agent_failed', `The head of the agent’s response is not valid HTTP: ${(error as Error).name}.`);
  }
}
