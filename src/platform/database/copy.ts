import type { Socket } from 'node:net';

import type pg from 'pg';

/** The most bytes that may wait for a reader slower than the server. */
const WAITING_MAX = 1024 * 1024;
/** The initial size of a slab's buffer in bytes; it grows as needed. */
const SLAB_BYTES = 128 * 1024;

/** Rows as the server sent them: row n begins at `rows[n]` and ends where the next one begins; the last entry is the end. */
export interface Slab {
  bytes: Buffer;
  rows: number[];
}

/** The part of a connection that COPY needs. */
interface Wire {
  stream: Socket;
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
}

/** A statement that the `pg` client runs. The events that COPY never causes are ignored. */
abstract class CopyStatement {
  constructor(protected readonly text: string) {}

  submit(wire: Wire): void {
    wire.query(this.text);
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
  handleCommandComplete(): void {}
  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail('nothing is sent here');
  }
  handleCopyData(_message: { chunk: Buffer }, _wire: Wire): void {}
  abstract handleError(error: Error): void;
  abstract handleReadyForQuery(): void;
}

class CopyOut extends CopyStatement {
  private buffer = Buffer.allocUnsafe(SLAB_BYTES);
  private rows = [0];
  private wire: Wire | null = null;
  private ended = false;
  private error: Error | null = null;
  private wake: () => void = () => undefined;

  override handleCopyData({ chunk }: { chunk: Buffer }, wire: Wire): void {
    // The chunk is copied at once, because the client's parser reuses its memory.
    const from = this.length;
    if (from + chunk.length > this.buffer.length) this.grow(from + chunk.length);
    chunk.copy(this.buffer, from);
    this.rows.push(from + chunk.length);
    this.wire = wire;
    if (this.length > WAITING_MAX) wire.stream.pause();
    this.wake();
  }

  override handleError(error: Error): void {
    this.error = error;
    this.handleReadyForQuery();
  }

  override handleReadyForQuery(): void {
    this.ended = true;
    this.wake();
  }

  /** Returns all rows that have arrived since the last call; null at the end. */
  async next(): Promise<Slab | null> {
    while (this.length === 0 && !this.ended) await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.length === 0 && this.error !== null) throw this.error;
    if (this.length === 0) return null;
    const slab = { bytes: this.buffer.subarray(0, this.length), rows: this.rows };
    this.buffer = Buffer.allocUnsafe(SLAB_BYTES);
    this.rows = [0];
    this.wire?.stream.resume();
    return slab;
  }

  private get length(): number {
    return this.rows.at(-1) as number;
  }

  private grow(needed: number): void {
    const larger = Buffer.allocUnsafe(Math.max(needed, this.buffer.length * 2));
    this.buffer.copy(larger, 0, 0, this.length);
    this.buffer = larger;
  }

  /** Destroys the connection, because the server can't be stopped from sending the rest. */
  abandon(): void {
    if (!this.ended) this.wire?.stream.destroy();
  }
}

class CopyIn extends CopyStatement {
  readonly done: Promise<void>;
  private settle: { resolve: () => void; reject: (error: Error) => void };
  private failed = false;

  constructor(
    text: string,
    private readonly source: AsyncIterable<Buffer>,
  ) {
    super(text);
    this.done = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    this.done.catch(() => undefined);
  }

  override handleCopyInResponse(wire: Wire): void {
    void this.pump(wire);
  }

  override handleError(error: Error): void {
    this.failed = true;
    this.settle.reject(error);
  }

  override handleReadyForQuery(): void {
    this.settle.resolve();
  }

  private async pump(wire: Wire): Promise<void> {
    try {
      for await (const chunk of this.source) {
        if (this.failed) return;
        wire.sendCopyFromChunk(chunk);
        if (wire.stream.writableNeedDrain) await drained(wire.stream);
      }
      if (!this.failed) wire.endCopyFrom();
    } catch (error) {
      // The server's own answer to the failure comes later and says less.
      this.settle.reject(error as Error);
      wire.sendCopyFail('the source failed');
    }
  }
}

function drained(stream: Socket): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      stream.off('drain', over).off('close', over);
      resolve();
    };
    stream.on('drain', over).on('close', over);
  });
}

/** Reads the output of `COPY … TO STDOUT` in whole rows; a slow reader makes the server wait. Leaving early ends the connection. */
export async function* copyOut(client: pg.ClientBase, text: string): AsyncGenerator<Slab> {
  const statement = client.query(new CopyOut(text) as unknown as pg.Submittable) as unknown as CopyOut;
  try {
    for (let slab = await statement.next(); slab !== null; slab = await statement.next()) yield slab;
  } finally {
    statement.abandon();
  }
}

/** Runs `COPY … FROM STDIN` with the bytes of the source; a slow server makes the source wait. Throws the error of either. */
export function copyIn(client: pg.ClientBase, text: string, source: AsyncIterable<Buffer>): Promise<void> {
  const statement = client.query(new CopyIn(text, source) as unknown as pg.Submittable) as unknown as CopyIn;
  return statement.done;
}
