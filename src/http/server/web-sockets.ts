import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { WebSocketServer, type WebSocket } from 'ws';

import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { OpenStreams } from '../limits/open-streams.ts';
import { upgradeOf } from '../requests/upgrades.ts';
import type { RequestContext } from './request-context.ts';
import { CLOSE } from './close-codes.ts';
import { isAllowedOrigin } from '../requests/origins.ts';

/** The time in which peers answer the end of a connection when the service stops, in ms. */
const CLOSING_MS = 1_000;
/** The number of pings after which a peer is given up whose input nothing takes all that time. */
const UNREAD_PINGS_MAX = 10;
/** The reason that callers get when the service stops. */
const STOPPING = 'The service is stopping.';

/** Opens WebSockets for routes, and ends those of peers that are gone, and all of them when the service stops. */
@Injectable()
export class WebSockets implements OnModuleDestroy {
  private readonly open = new Set<WebSocket>();
  private isStopping = false;

  constructor(
    private readonly config: Config,
    private readonly openStreams: OpenStreams,
  ) {}

  /** The value is true once the service has begun to stop. */
  get stopping(): boolean {
    return this.isStopping;
  }

  /**
   * Checks a handshake before anything is done for it, and counts it as an open stream. Throws `invalid_request` if the request is none,
   * `origin_not_allowed` for the page of another site, and `rate_limited` if too many streams are open.
   */
  check(call: RequestContext): void {
    const upgrade = upgradeOf(call.incoming);
    if (upgrade === null) {
      call.setHeader('upgrade', 'websocket');
      throw new ProblemError('invalid_request', 'This address takes WebSocket connections: send a handshake with Upgrade: websocket.');
    }
    const { origin, host = '' } = upgrade.request.headers;
    if (origin !== undefined && !isAllowedOrigin(origin, host, this.config))
      throw new ProblemError('origin_not_allowed', 'Pages of this origin may not open connections; the operator can allow it.');
    this.openStreams.add(call);
  }

  /** Answers the handshake. Throws `invalid_request` if it is malformed. Frames of more than `frameBytesMax` end the connection. */
  async accept(call: RequestContext, frameBytesMax: number): Promise<WebSocket> {
    const upgrade = upgradeOf(call.incoming);
    if (upgrade === null || call.isClosed) throw new ProblemError('invalid_request', 'The caller closed the connection.');
    const server = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: frameBytesMax });
    const socket = await new Promise<WebSocket>((resolve, reject) => {
      server.on('wsClientError', ({ message }) =>
        reject(new ProblemError('invalid_request', `The WebSocket handshake is malformed: ${message}.`)),
      );
      server.handleUpgrade(upgrade.request, upgrade.socket, upgrade.head, resolve);
    });
    call.hijack();
    this.open.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => this.open.delete(socket));
    endUnlessAlive(socket, this.config.webSocketPingSeconds * 1_000);
    if (this.isStopping) socket.close(CLOSE.goingAway, STOPPING);
    return socket;
  }

  /** Tells all peers that the service stops, and closes their connections; those that do not answer are broken off. */
  closeAll(): void {
    if (this.isStopping) return;
    this.isStopping = true;
    for (const socket of this.open) socket.close(CLOSE.goingAway, STOPPING);
    setTimeout(() => this.open.forEach((socket) => socket.terminate()), CLOSING_MS).unref();
  }

  onModuleDestroy(): void {
    this.closeAll();
  }
}

/**
 * Pings the peer, and breaks the connection off if nothing was heard of it since the last ping: no answer, no message, and nothing of what
 * waits for it was taken. A peer that is not read at present, since its input waits, can't be heard: neither its answers nor that it stopped
 * sending. It has `UNREAD_PINGS_MAX` pings.
 */
function endUnlessAlive(socket: WebSocket, everyMs: number): void {
  let unansweredPings = 0;
  let waitingBytes = 0;
  const hear = () => (unansweredPings = 0);
  socket.on('pong', hear);
  socket.on('message', hear);
  const timer = setInterval(() => {
    if (socket.bufferedAmount < waitingBytes) hear();
    if (unansweredPings >= (socket.isPaused ? UNREAD_PINGS_MAX : 1)) socket.terminate();
    waitingBytes = socket.bufferedAmount;
    unansweredPings += 1;
    socket.ping(undefined, undefined, () => undefined);
  }, everyMs).unref();
  socket.on('close', () => clearInterval(timer));
}
