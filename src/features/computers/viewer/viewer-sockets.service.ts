/*
 * Serves the WebSockets with which browsers see and control desktops, from the handshake to the record of their end.
 *
 * It owns the connections of this process while they are served. It does not own the bytes (`ViewerRelay`), the rights of a session
 * (viewers.decider.ts, `OpenViewers`), or the rows by which replicas know of each other's connections (`ViewerConnections`).
 *
 * Invariants:
 * V1. A connection has a row before its event is in the log, and loses the row only after the event of its end is. So a connection of a
 *     killed process is found by its row, and its end is recorded by another process.
 * V2. A browser never wakes a computer: sessions end when their computer sleeps, and pages that connect again must not undo the sleep.
 * V3. A connected viewer keeps the computer awake for some multiples of its idle time after its last input (see
 *     `ViewedDesktops.keepAwake`).
 * V4. The bytes that wait for a slow browser are bounded, and so are those of all browsers of an account together.
 * V5. A connection ends at the latest when its link expires.
 */

import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';

import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import type { RequestContext } from '../../../http/server/request-context.ts';
import { WebSockets } from '../../../http/server/web-sockets.ts';
import { newId } from '../../../kernel/ids.ts';
import { DesktopTimeout } from '../../../desktop/rfb/desktop-errors.ts';
import { greetDesktop } from './desktop-greeting.ts';
import { OpenViewers } from './open-viewers.service.ts';
import { type Dial, type ViewNeed, ViewedDesktops } from './viewed-desktops.ts';
import { type ViewerConnection, ViewerConnections } from './viewer-connections.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { FRAME_BYTES_MAX, ViewerRelay } from './viewer-relay.ts';
import type { ViewerLink } from './viewer-token.ts';
import { CLOSED, mayControl, openSession } from './viewers.decider.ts';

/** The longest wait for the greeting of a desktop, in ms. */
const GREETING_TIMEOUT_MS = 10_000;
/** One input keeps the computer awake for this time, in ms. The idle time starts afterwards. */
const INPUT_HOLD_MS = 5_000;
/** V4: the most bytes that wait for one browser, and for all browsers of an account. Each browser may always have `least`. */
const WAITING_BYTES = { browser: 8_388_608, account: 67_108_864, least: 262_144 };

/** Connects browsers with desktops, and records who was connected and for how long. */
@Injectable()
export class ViewerSockets implements BeforeApplicationShutdown {
  private readonly logger = new Logger('ViewerSockets');
  private readonly running = new Set<Promise<void>>();

  constructor(
    private readonly desktops: ViewedDesktops,
    private readonly records: ViewerRecords,
    private readonly connections: ViewerConnections,
    private readonly viewers: OpenViewers,
    private readonly sockets: WebSockets,
  ) {}

  /**
   * Serves a connection until it ends. Before it is open, throws what `WebSockets.check` throws, `session_closed`, `rate_limited`,
   * `computer_asleep`, and the failures of the desktop.
   */
  async serve(call: RequestContext, link: ViewerLink): Promise<void> {
    this.sockets.check(call);
    const { sessionId, computerId } = link;
    openSession(await this.records.load(computerId), sessionId, new Date());
    const { accountId, context } = call;
    // V2
    const need = { computerId, accountId, context, signal: call.goneSignal(), wake: false };
    const connection = { connectionId: newId(), sessionId, computerId, accountId };
    const relay = await this.desktops.whileAwake(need, (dial) => this.open(call, link, connection, dial));
    const serving = this.waitForEnd(call, connection, relay);
    this.running.add(serving);
    await serving.finally(() => this.running.delete(serving));
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.sockets.closeAll();
    await Promise.allSettled(this.running);
  }

  private async open(call: RequestContext, link: ViewerLink, connection: ViewerConnection, dial: Dial): Promise<ViewerRelay> {
    const { computerId, sessionId, accountId, connectionId } = connection;
    const desktop = await this.dialAndGreet(dial, call.goneSignal());
    try {
      // V1
      await this.connections.add(connection);
      const state = await this.records.execute(computerId, { type: 'ConnectViewer', sessionId, connectionId }, call.context);
      const socket = await this.sockets.accept(call, FRAME_BYTES_MAX);
      const hold = this.inputHold({ computerId, accountId, context: call.context, signal: call.goneSignal(), wake: false });
      const relay = new ViewerRelay(socket, desktop, {
        mode: link.mode,
        allowsInput: mayControl(state, sessionId),
        waitingBytesMax: () => this.waitingBytesMax(accountId),
        onInput: (pointer) => {
          this.connections.markInput(connectionId);
          if (pointer !== null) this.desktops.movePointer(computerId, pointer.x, pointer.y);
          hold();
        },
      });
      endAtExpiry(relay, link);
      this.viewers.add({ computerId, sessionId, accountId, relay });
      this.keepAwake(computerId);
      return relay;
    } catch (error) {
      desktop.destroy();
      await this.recordEnd(call, connection, performance.now());
      throw error;
    }
  }

  private async dialAndGreet(dial: Dial, gone: AbortSignal) {
    const timeout = timeoutSignal(GREETING_TIMEOUT_MS);
    const signal = AbortSignal.any([gone, timeout]);
    try {
      const desktop = await dial(signal);
      desktop.on('error', () => undefined);
      await greetDesktop(desktop, signal).catch((error: unknown) => {
        desktop.destroy();
        throw error;
      });
      return desktop;
    } catch (error) {
      if (timeout.aborted) throw new DesktopTimeout('greeting', GREETING_TIMEOUT_MS);
      throw error;
    }
  }

  /** Waits for the end of the connection, and records it. Never throws. */
  private async waitForEnd(call: RequestContext, connection: ViewerConnection, relay: ViewerRelay): Promise<void> {
    const since = performance.now();
    await relay.ended;
    await this.recordEnd(call, connection, since);
  }

  private async recordEnd({ context }: RequestContext, { computerId, connectionId }: ViewerConnection, since: number): Promise<void> {
    const seconds = Math.round((performance.now() - since) / 1_000);
    try {
      await this.records.execute(computerId, { type: 'DisconnectViewer', connectionId, seconds }, context);
      await this.connections.remove([connectionId]);
      if ((await this.connections.ofComputer(computerId)).size === 0) await this.desktops.stopKeepingAwake(computerId);
    } catch (error) {
      this.connections.abandon(connectionId);
      this.logger.warn({ msg: 'the end of a connection to a desktop could not be recorded yet', err: error });
    }
  }

  /** V3: returns a function for each input. It holds the computer awake for a moment, so that it counts as used at the last input. */
  private inputHold(need: ViewNeed): () => void {
    let isHeld = false;
    return () => {
      if (isHeld || need.signal.aborted) return;
      isHeld = true;
      void this.desktops
        .whileAwake(need, () => pause(INPUT_HOLD_MS, need.signal))
        // If the computer can't be held any more, its sessions end.
        .catch(() => undefined)
        .finally(() => {
          isHeld = false;
          if (!need.signal.aborted) this.keepAwake(need.computerId);
        });
    };
  }

  private keepAwake(computerId: string): void {
    this.desktops
      .keepAwake(computerId)
      .catch((error: unknown) => this.logger.warn({ msg: 'a computer that is seen could not be kept awake', computerId, err: error }));
  }

  /** V4: returns the bytes that may wait for one browser of the account: an equal share for each of them. */
  private waitingBytesMax(accountId: string): number {
    const share = WAITING_BYTES.account / Math.max(1, this.viewers.countOf(accountId));
    return Math.max(WAITING_BYTES.least, Math.min(WAITING_BYTES.browser, share));
  }
}

/** V5 */
function endAtExpiry(relay: ViewerRelay, { expiresAt }: ViewerLink): void {
  const timer = setTimeout(() => relay.endSession('expired', CLOSED.expired), expiresAt - Date.now()).unref();
  void relay.ended.then(() => clearTimeout(timer));
}
