import type { Duplex } from 'node:stream';

import type { RawData, WebSocket } from 'ws';

import { CLOSE } from '../../../http/server/close-codes.ts';
import { CLIENT_INIT } from '../../../desktop/rfb/handshake.ts';
import { CUT_TEXT_BYTES_MAX, type Filtered, GREETING, RfbFilter, RfbViolation } from './rfb-filter.ts';
import type { ViewerEnd, ViewerMode } from './viewers.events.ts';

/** The largest frame of a browser, in bytes. */
export const FRAME_BYTES_MAX = CUT_TEXT_BYTES_MAX + 65_536;
/** The time in which a browser answers the end of its connection, and a desktop takes the last input, ms. */
const CLOSING_MS = 1_000;

/** The close codes of connections to desktops, beside those of all WebSockets. The page knows them, too. */
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
  /** Called when input was passed on, with the place to which the pointer was moved, if it was. */
  onInput: (pointer: { x: number; y: number } | null) => void;
}

/** Passes on what a browser and a desktop send each other. Both have been greeted by the service, so neither sees how the other is. */
export class ViewerRelay {
  readonly ended: Promise<RelayEnd>;
  private readonly filter: RfbFilter;
  private allowsInput: boolean;
  private hasBegun = false;
  private end: (side: RelayEnd) => void = () => undefined;
  private isOver = false;

  constructor(
    private readonly socket: WebSocket,
    private readonly desktop: Duplex,
    private readonly options: RelayOptions,
  ) {
    this.allowsInput = options.allowsInput;
    this.filter = new RfbFilter(options.allowsInput);
    this.ended = new Promise((resolve) => (this.end = resolve));
    socket.on('message', (data: RawData, isBinary: boolean) => this.onMessage(data as Buffer, isBinary));
    socket.once('close', () => this.finish('browser'));
    desktop.on('drain', () => socket.resume());
    desktop.on('error', () => undefined);
    desktop.once('end', () => this.onDesktopEnd());
    desktop.once('close', () => this.onDesktopEnd());
    this.tellState();
    socket.send(GREETING, { binary: true });
  }

  /** Allows or refuses input from now on. What the browser holds down is released. */
  setInput(isAllowed: boolean): void {
    if (this.isOver || isAllowed === this.allowsInput) return;
    this.allowsInput = isAllowed;
    this.toDesktop(this.filter.setInput(isAllowed));
    this.tellState();
  }

  /** Ends the connection because its session ended. */
  endSession(reason: ViewerEnd, sentence: string): void {
    this.cut(VIEWER_CLOSE[reason], sentence);
  }

  /** Ends the connection. From now on nothing is passed on. */
  cut(code: number, reason: string): void {
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

  /** Releases what the browser holds down, and ends the connection to the desktop. */
  private finish(side: RelayEnd): void {
    if (this.isOver) return;
    this.isOver = true;
    this.desktop.removeAllListeners('data');
    this.desktop.resume();
    this.toDesktop(this.filter.release());
    this.desktop.end(() => this.desktop.destroy());
    setTimeout(() => this.desktop.destroy(), CLOSING_MS).unref();
    this.end(side);
  }

  private onMessage(data: Buffer, isBinary: boolean): void {
    if (this.isOver) return;
    if (!isBinary) return this.cut(CLOSE.policy, 'A viewer sends binary frames.');
    let filtered: Filtered;
    try {
      filtered = this.filter.write(data);
    } catch (error) {
      if (!(error instanceof RfbViolation)) throw error;
      return this.cut(CLOSE.policy, error.message);
    }
    for (const message of filtered.toBrowser) this.socket.send(message, { binary: true });
    if (filtered.isGreeted) this.begin();
    this.toDesktop(filtered.toDesktop);
    if (filtered.hasInput) this.options.onInput(filtered.pointer);
    if (this.desktop.writableNeedDrain) this.socket.pause();
  }

  private begin(): void {
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.desktop.on('data', (bytes: Buffer) => this.onBytes(bytes));
    this.desktop.write(CLIENT_INIT);
    this.desktop.resume();
  }

  private onBytes(bytes: Buffer): void {
    const { socket, desktop } = this;
    const isFull = () => socket.bufferedAmount >= this.options.waitingBytesMax();
    socket.send(bytes, { binary: true }, () => {
      if (!isFull()) desktop.resume();
    });
    if (isFull()) desktop.pause();
  }

  private toDesktop(messages: readonly Buffer[]): void {
    if (messages.length > 0 && this.desktop.writable) this.desktop.write(Buffer.concat(messages));
  }

  /** Tells the page whether its user controls the desktop: a text frame beside the binary ones of the desktop. */
  private tellState(): void {
    this.socket.send(JSON.stringify({ type: 'session', mode: this.options.mode, control: this.allowsInput }));
  }
}
