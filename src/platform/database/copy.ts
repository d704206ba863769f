import type { Socket } from 'node:net';

import type pg from 'pg';

/** Bytes that may wait for a reader who is slower than the server. */
const WAITING_MAX = 1024 * 1024;

/** Rows as they came from the server: row n begins at `rows[n]` and ends where the next one begins; the last entry is the end. */
export interface Slab {
  bytes: Buffer;
  rows: number[];
}

/** What of a connection COPY needs. */
interface Wire {
  stream: Socket;
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
}

/** What the `pg` client tells of the statement that it runs; what no COPY causes does nothing. */
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
  private chunks: Buffer[] = [];
  private bytes = 0;
  private wire: Wire | null = null;
  private ended = false;
  private error: Error | null = null;
  private wake: () => void = () => undefined;

  override handleCopyData({ chunk }: { chunk: Buffer }, wire: Wire): void {
    this.chunks.push(chunk);
    this.bytes += chunk.length;
    this.wire = wire;
    if (this.bytes > WAITING_MAX) wire.stream.pause();
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

  /** Everything that has come meanwhile; null at the end. */
  async next(): Promise<Slab | null> {
    while (this.chunks.length === 0 && !this.ended) await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.chunks.length === 0 && this.error !== null) throw this.error;
    if (this.chunks.length === 0) return null;
    const bytes = Buffer.concat(this.chunks);
    const rows = [0];
    for (const { length } of this.chunks) rows.push((rows.at(-1) as number) + length);
    this.chunks = [];
    this.bytes = 0;
    this.wire?.stream.resume();
    return { bytes, rows };
  }

  /** The rest can't be asked to stay away, so the connection ends. */
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
      // The server's own answer to the break comes later and says less.
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

/** What `COPY … TO STDOUT` gives, whole rows at a time; a slow reader holds the server up. Breaking off ends the connection. */
export async function* copyOut(client: pg.ClientBase, text: string): AsyncGenerator<Slab> {
  const statement = client.query(new CopyOut(text) as unknown as pg.Submittable) as unknown as CopyOut;
  try {
    for (let slab = await statement.next(); slab !== null; slab = await statement.next()) yield slab;
  } finally {
    statement.abandon();
  }
}

/** Runs `COPY … FROM STDIN` with the bytes of the source; a slow server holds the source up. Throws what either threw. */
export function copyIn(client: pg.ClientBase, text: string, source: AsyncIterable<Buffer>): Promise<void> {
  const statement = client.query(new CopyIn(text, source) as unknown as pg.Submittable) as unknown as CopyIn;
  return statement.done;
}
