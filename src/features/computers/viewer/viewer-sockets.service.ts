import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';

import { pause } from '../../../kernel/async/pause.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import type { Call } from '../../../http/server/call.ts';
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

/** The longest wait for the greeting of a desktop, ms. */
const GREETING_TIMEOUT_MS = 10_000;
/** The time for which one input keeps the computer awake by itself, ms. The idle time begins at its end. */
const INPUT_HOLD_MS = 5_000;
/** The most bytes that wait for one browser, and for all browsers of an account; but each browser may have the least. */
const WAITING_BYTES = { browser: 8_388_608, account: 67_108_864, least: 262_144 };

/** Connects browsers with desktops, and records who was connected and how long. */
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
  async serve(call: Call, link: ViewerLink): Promise<void> {
    this.sockets.check(call);
    const { sessionId, computerId } = link;
    openSession(await this.records.load(computerId), sessionId, new Date());
    const { accountId, context } = call;
    // Sessions end when their computer sleeps, so a browser that connects again, as pages do by themselves, must not undo the sleep.
    const need = { computerId, accountId, context, signal: call.goneSignal(), wake: false };
    const connection = { connectionId: newId(), sessionId, computerId, accountId };
    const relay = await this.desktops.whileAwake(need, (dial) => this.open(call, link, connection, dial));
    const serving = this.attend(call, connection, relay);
    this.running.add(serving);
    await serving.finally(() => this.running.delete(serving));
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.sockets.closeAll();
    await Promise.allSettled(this.running);
  }

  private async open(call: Call, link: ViewerLink, connection: ViewerConnection, dial: Dial): Promise<ViewerRelay> {
    const { computerId, sessionId, accountId, connectionId } = connection;
    const desktop = await this.greeted(dial, call.goneSignal());
    try {
      await this.connections.add(connection);
      const state = await this.records.execute(computerId, { type: 'ConnectViewer', sessionId, connectionId }, call.context);
      const socket = await this.sockets.accept(call, FRAME_BYTES_MAX);
      const hold = this.holder({ computerId, accountId, context: call.context, signal: call.goneSignal(), wake: false });
      const relay = new ViewerRelay(socket, desktop, {
        mode: link.mode,
        allowsInput: mayControl(state, sessionId),
        waitingBytesMax: () => this.waitingBytesMax(accountId),
        onInput: (pointer) => {
          this.connections.noteInput(connectionId);
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

  private async greeted(dial: Dial, gone: AbortSignal) {
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
  private async attend(call: Call, connection: ViewerConnection, relay: ViewerRelay): Promise<void> {
    const since = performance.now();
    await relay.ended;
    await this.recordEnd(call, connection, since);
  }

  private async recordEnd({ context }: Call, { computerId, connectionId }: ViewerConnection, since: number): Promise<void> {
    const seconds = Math.round((performance.now() - since) / 1_000);
    try {
      await this.records.execute(computerId, { type: 'DisconnectViewer', connectionId, seconds }, context);
      await this.connections.remove([connectionId]);
      if ((await this.connections.ofComputer(computerId)).size === 0) await this.desktops.keepAwakeNoLonger(computerId);
    } catch (error) {
      this.connections.abandon(connectionId);
      this.logger.warn({ msg: 'the end of a connection to a desktop could not be recorded yet', err: error });
    }
  }

  /** Returns a function that is called at each input. It holds the computer for a moment, so that it counts as used at the last input. */
  private holder(need: ViewNeed): () => void {
    let isHeld = false;
    return () => {
      if (isHeld || need.signal.aborted) return;
      isHeld = true;
      void this.desktops
        .whileAwake(need, () => pause(INPUT_HOLD_MS, need.signal))
        // A computer that does not sleep any more ends its sessions, or has ended them.
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

  /** Returns the bytes that may wait for one browser of the account: the share of one of those that it has. */
  private waitingBytesMax(accountId: string): number {
    const share = WAITING_BYTES.account / Math.max(1, this.viewers.countOf(accountId));
    return Math.max(WAITING_BYTES.least, Math.min(WAITING_BYTES.browser, share));
  }
}

function endAtExpiry(relay: ViewerRelay, { expiresAt }: ViewerLink): void {
  const timer = setTimeout(() => relay.endSession('expired', CLOSED.expired), expiresAt - Date.now()).unref();
  void relay.ended.then(() => clearTimeout(timer));
}
