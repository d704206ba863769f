import { EventEmitter } from 'node:events';
import { duplexPair, type Duplex } from 'node:stream';

import type { WebSocket } from 'ws';

import { untilTrue } from '../../../../test/support/until.ts';
import { keyEvent } from '../../../desktop/rfb/client-messages.ts';
import { GREETING } from './rfb-filter.ts';
import { ViewerRelay } from './viewer-relay.ts';

/** A browser whose network takes bytes only when the test says so. */
class SlowBrowser extends EventEmitter {
  bufferedAmount = 0;
  isPaused = false;
  closed: [number, string] | null = null;
  private readonly waiting: { bytes: number; done: () => void }[] = [];

  send(data: Buffer | string, ...rest: unknown[]): void {
    const done = rest.find((each) => typeof each === 'function') as (() => void) | undefined;
    const bytes = Buffer.byteLength(data);
    this.bufferedAmount += bytes;
    this.waiting.push({ bytes, done: done ?? (() => undefined) });
  }

  /** Lets the network take everything that waits. */
  flush(): void {
    for (const { bytes, done } of this.waiting.splice(0)) {
      this.bufferedAmount -= bytes;
      done();
    }
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  close(code: number, reason: string): void {
    this.closed = [code, reason];
  }

  terminate(): void {
    this.emit('close');
  }
}

const WAITING_BYTES_MAX = 100_000;

function connected(): { browser: SlowBrowser; desktop: Duplex; relay: ViewerRelay } {
  const browser = new SlowBrowser();
  const [near, desktop] = duplexPair();
  const relay = new ViewerRelay(browser as unknown as WebSocket, near, {
    mode: 'control',
    allowsInput: true,
    waitingBytesMax: () => WAITING_BYTES_MAX,
    onInput: () => undefined,
  });
  browser.emit('message', Buffer.concat([GREETING, Buffer.of(1, 1)]), true);
  desktop.on('error', () => undefined);
  return { browser, desktop, relay };
}

describe('a viewer that reads slowly', () => {
  it('holds up the desktop, with a bounded number of bytes in memory, and gets all of them', async () => {
    const { browser, desktop } = connected();
    const piece = Buffer.alloc(65_536, 1);
    let sent = 0;
    let isHeldUp = false;
    const write = () => {
      while (sent < 64 && !isHeldUp) {
        sent += 1;
        isHeldUp = !desktop.write(piece);
      }
    };
    desktop.on('drain', () => {
      isHeldUp = false;
      write();
    });
    write();
    await untilTrue(() => isHeldUp && browser.bufferedAmount >= WAITING_BYTES_MAX);
    expect(browser.bufferedAmount).toBeLessThan(WAITING_BYTES_MAX + 2 * piece.length);
    expect(sent).toBeLessThan(10);
    await untilTrue(() => {
      browser.flush();
      return sent === 64;
    });
  });
});

describe('a viewer that sends faster than the desktop reads', () => {
  it('is held up, and goes on later', async () => {
    const { browser, desktop } = connected();
    desktop.pause();
    for (let n = 0; n < 20_000 && !browser.isPaused; n += 1) browser.emit('message', keyEvent(0x61, n % 2 === 0), true);
    expect(browser.isPaused).toBe(true);
    desktop.resume();
    await untilTrue(() => !browser.isPaused);
  });
});

describe('a viewer whose session ends', () => {
  it('passes nothing on any more, in either direction', async () => {
    const { browser, desktop, relay } = connected();
    const got: Buffer[] = [];
    desktop.on('data', (bytes: Buffer) => got.push(bytes));
    browser.emit('message', keyEvent(0x61, true), true);
    await untilTrue(() => Buffer.concat(got).length === 9);
    relay.endSession('closed', 'This session was closed.');
    expect(browser.closed).toEqual([4001, 'This session was closed.']);
    browser.emit('message', keyEvent(0x62, true), true);
    browser.flush();
    desktop.write(Buffer.alloc(100));
    await untilTrue(() => desktop.readableEnded);
    // It is greeted, and the key that was down is released.
    expect(Buffer.concat(got)).toEqual(Buffer.concat([Buffer.of(1), keyEvent(0x61, true), keyEvent(0x61, false)]));
    expect(browser.bufferedAmount).toBe(0);
    expect(await relay.ended).toBe('service');
  });
});
