import type { RawData, WebSocket } from 'ws';

import { CLOSE } from '../../http/server/close-codes.ts';
import type { Terminal } from '../../runtime/runtime.ts';

/** The largest frame of a caller, in bytes. */
export const FRAME_BYTES_MAX = 65_536;
/** The most bytes of output that wait for a slow reader. Above that, nothing is read from the terminal. */
const OUTPUT_BYTES_MAX = 262_144;
/** The largest number of columns or rows. */
export const SIZE_MAX = 1_000;

/**
 * Connects a WebSocket with a terminal: binary frames are input and output, and a text frame changes the size. Resolves when either side
 * has ended. `onInput` is called for each input.
 */
export function connectTerminal(socket: WebSocket, terminal: Terminal, onInput: () => void): Promise<'shell' | 'socket'> {
  const { stream } = terminal;
  const sizes = new ResizeQueue(terminal);
  stream.on('data', (bytes: Buffer) => {
    socket.send(bytes, { binary: true }, () => {
      if (socket.bufferedAmount < OUTPUT_BYTES_MAX) stream.resume();
    });
    if (socket.bufferedAmount >= OUTPUT_BYTES_MAX) stream.pause();
  });
  stream.on('drain', () => socket.resume());
  socket.on('message', (data: RawData, isBinary: boolean) => {
    onInput();
    if (isBinary) {
      if (!stream.destroyed && stream.writable && !stream.write(data)) socket.pause();
      return;
    }
    const size = sizeOf((data as Buffer).toString());
    if (size === null) socket.close(CLOSE.policy, 'A text frame must be {"type":"resize","cols":…,"rows":…}.');
    else sizes.set(size);
  });
  return new Promise((resolve) => {
    stream.once('end', () => resolve('shell'));
    stream.once('close', () => resolve('shell'));
    socket.once('close', () => resolve('socket'));
  });
}

interface Size {
  cols: number;
  rows: number;
}

/** Applies sizes to a terminal one after the other. Of the sizes that arrive meanwhile, only the last one is applied. */
class ResizeQueue {
  private next: Size | null = null;
  private isResizing = false;

  constructor(private readonly terminal: Terminal) {}

  set(size: Size): void {
    this.next = size;
    if (!this.isResizing) void this.run();
  }

  private async run(): Promise<void> {
    this.isResizing = true;
    while (this.next !== null) {
      const { cols, rows } = this.next;
      this.next = null;
      // A failure is ignored: if the shell is ending, its end is reported anyway.
      await this.terminal.resize(cols, rows).catch(() => undefined);
    }
    this.isResizing = false;
  }
}

/** Returns the size in a text frame; null if the frame is malformed. */
export function sizeOf(text: string): Size | null {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return null;
  }
  const { type, cols, rows } = (frame ?? {}) as Record<string, unknown>;
  return type === 'resize' && isSize(cols) && isSize(rows) ? { cols, rows } : null;
}

function isSize(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= SIZE_MAX;
}
