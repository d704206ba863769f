/*
 * Passes bytes on between a browser (WebSocket) and a desktop (RFB) until one of them, or the service, ends the connection.
 *
 * It owns both connections while it runs. It does not own which messages of a browser are let through (`RfbFilter`), who may control (the
 * options and `setInput`), or the records.
 *
 * Invariants:
 * R1. Everything that a browser sends goes through the filter. A message that breaks the protocol ends the connection.
 * R2. The desktop sends to the browser only after the service has greeted the browser itself, so neither sees the handshake of the other.
 * R3. Neither side is read faster than the other one takes it: above the bound the desktop is paused, and a desktop that is behind pauses
 *     the browser.
 * R4. When the connection ends, or control is taken away, the keys and buttons that the browser holds down are released on the desktop.
 * R5. `ended` resolves exactly once. Nothing is passed on afterwards.
 */

import type { Duplex } from 'node:stream';

import type { RawData, WebSocket } from 'ws';

import { CLOSE } from '../../../http/server/close-codes.ts';
import { CLIENT_INIT } from '../../../desktop/rfb/handshake.ts';
import { CUT_TEXT_BYTES_MAX, type FilterResult, GREETING, RfbFilter, RfbViolation } from './rfb-filter.ts';
import type { ViewerEnd, ViewerMode } from './viewers.events.ts';

/** The largest frame of a browser, in bytes. */
export const FRAME_BYTES_MAX = CUT_TEXT_BYTES_MAX + 65_536;
/** A closing connection may take this long, in ms: for the browser to answer, and for the desktop to read the last input. */
const CLOSING_MS = 1_000;

/** The close codes of viewer connections, in addition to those of all WebSockets. viewer.mjs has them, too. */
const VIEWER_CLOSE: Record<ViewerEnd | 'desktop', number> = {
  closed: 4001,
  expired: 4002,
  asleep: 4003,
  deleted: 4004,
  desktop: 4005,
  revoked: 4006,
};

/** The side that ended the connection. */
export type RelayEnd = 'browser' | 'desktop' | 'service';

export interface RelayOptions {
  mode: ViewerMode;
  allowsInput: boolean;
  /** Returns the bytes that may wait for the browser, above which nothing is read from the desktop. */
  waitingBytesMax: () => number;
  /** Called after input was passed on, with the new place of the pointer, or null if it did not move. */
  onInput: (pointer: { x: number; y: number } | null) => void;
}

/** Passes bytes on between a browser and a desktop. The service itself has greeted both. */
export class ViewerRelay {
  readonly ended: Promise<RelayEnd>;
  private readonly filter: RfbFilter;
  private allowsInput: boolean;
  private hasStarted = false;
  private resolveEnded: (side: RelayEnd) => void = () => undefined;
  private isOver = false;

  constructor(
    private readonly socket: WebSocket,
    private readonly desktop: Duplex,
    private readonly options: RelayOptions,
  ) {
    this.allowsInput = options.allowsInput;
    this.filter = new RfbFilter(options.allowsInput);
    this.ended = new Promise((resolve) => (this.resolveEnded = resolve));
    socket.on('message', (data: RawData, isBinary: boolean) => this.onMessage(data as Buffer, isBinary));
    socket.once('close', () => this.finish('browser'));
    desktop.on('drain', () => socket.resume());
    desktop.on('error', () => undefined);
    desktop.once('end', () => this.onDesktopEnd());
    desktop.once('close', () => this.onDesktopEnd());
    this.sendState();
    socket.send(GREETING, { binary: true });
  }

  /** Allows or refuses input from now on. R4: when input is refused, the pressed keys and buttons are released. */
  setInput(isAllowed: boolean): void {
    if (this.isOver || isAllowed === this.allowsInput) return;
    this.allowsInput = isAllowed;
    this.sendToDesktop(this.filter.setInput(isAllowed));
    this.sendState();
  }

  /** Ends the connection because its session ended. */
  endSession(reason: ViewerEnd, sentence: string): void {
    this.close(VIEWER_CLOSE[reason], sentence);
  }

  /** Ends the connection. From now on nothing is passed on. */
  close(code: number, reason: string): void {
    if (this.isOver) return;
    this.socket.close(code, reason);
    setTimeout(() => this.socket.terminate(), CLOSING_MS).unref();
    this.finish('service');
  }

  private onDesktopEnd(): void {
    if (this.isOver) return;
    this.socket.close(VIEWER_CLOSE.desktop, 'The desktop ended the connection.');
    setTimeout(() => this.socket.terminate(), CLOSING_MS).unref();
    this.finish('desktop');
  }

  /** R4, R5: releases the pressed keys and buttons, and ends the connection to the desktop. */
  private finish(side: RelayEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.desktop.removeAllListeners('data');
    this.desktop.resume();
    this.sendToDesktop(this.filter.release());
    this.desktop.end(() => this.desktop.destroy());
    setTimeout(() => this.desktop.destroy(), CLOSING_MS).unref();
    this.resolveEnded(side);
  }

  private onMessage(data: Buffer, isBinary: boolean): void {
    if (this.isOver) return;
    if (!isBinary) return this.close(CLOSE.policy, 'A viewer sends binary frames.');
    // R1
    let filtered: FilterResult;
    try {
      filtered = this.filter.write(data);
    } catch (error) {
      if (!(error instanceof RfbViolation)) throw error;
      return this.close(CLOSE.policy, error.message);
    }
    for (const message of filtered.toBrowser) this.socket.send(message, { binary: true });
    // R2
    if (filtered.isGreeted) this.start();
    this.sendToDesktop(filtered.toDesktop);
    if (filtered.hasInput) this.options.onInput(filtered.pointer);
    // R3
    if (this.desktop.writableNeedDrain) this.socket.pause();
  }

  private start(): void {
    if (this.hasStarted) return;
    this.hasStarted = true;
    this.desktop.on('data', (bytes: Buffer) => this.onDesktopData(bytes));
    this.desktop.write(CLIENT_INIT);
    this.desktop.resume();
  }

  private onDesktopData(bytes: Buffer): void {
    const { socket, desktop } = this;
    const isFull = () => socket.bufferedAmount >= this.options.waitingBytesMax();
    socket.send(bytes, { binary: true }, () => {
      if (!isFull()) desktop.resume();
    });
    // R3
    if (isFull()) desktop.pause();
  }

  private sendToDesktop(messages: readonly Buffer[]): void {
    if (messages.length > 0 && this.desktop.writable) this.desktop.write(Buffer.concat(messages));
  }

  /** Sends the page a text frame that says whether its user controls the desktop. The desktop's own frames are binary. */
  private sendState(): void {
    this.socket.send(JSON.stringify({ type: 'session', mode: this.options.mode, control: this.allowsInput }));
  }
}
