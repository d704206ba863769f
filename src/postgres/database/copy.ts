/**
 * COPY on a connection of `pg`, with a bound on memory in both directions.
 *
 * Owns: the bytes of a connection while a COPY runs on it. Does not own the connection, which its caller gets from a pool and gives back.
 *
 * C1  The client's own parser gets every byte that is not a row, and all bytes after the statement, so the connection stays usable.
 * C2  A reader slower than the server makes the server wait once 1 MiB is buffered; a slow server makes the source wait.
 * C3  A reader that stops early ends the connection, because the server can't be stopped from sending the rest.
 */
import type { Socket } from 'node:net';

import type pg from 'pg';

/** C2: The most bytes that are buffered for a reader slower than the server. */
const BUFFERED_BYTES_MAX = 1024 * 1024;

/** Rows as the server sent them: row n begins at `starts[n]` and ends before `ends[n]`. The bytes between two rows belong to neither. */
export interface RowBatch {
  bytes: Buffer;
  starts: number[];
  ends: number[];
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
    wire.sendCopyFail('no rows are sent in this statement');
  }
  handleCopyData(_message: { chunk: Buffer }, _wire: Wire): void {}
  abstract handleError(error: Error): void;
  abstract handleReadyForQuery(): void;
}

/** The codes of the messages that hold one row, and that end a statement. */
const ROW_MESSAGE = 0x64;
const READY_MESSAGE = 0x5a;
/** The size of a message's code and length, in bytes. */
const HEADER_BYTES = 5;

/**
 * Finds the rows in the connection's bytes itself, because the client's parser creates an object and an event for each. C1: All other
 * messages are passed to that parser.
 */
class CopyOut extends CopyStatement {
  private readonly waiting: RowBatch[] = [];
  private waitingBytes = 0;
  /** The beginning of a message whose rest has not arrived. */
  private begun: Buffer[] = [];
  private begunBytes = 0;
  private wire: Wire | null = null;
  private parsers: ((bytes: Buffer) => void)[] = [];
  private ended = false;
  private error: Error | null = null;
  private wake: () => void = () => undefined;

  override submit(wire: Wire): void {
    this.wire = wire;
    this.parsers = wire.stream.listeners('data') as ((bytes: Buffer) => void)[];
    wire.stream.on('data', this.receive);
    for (const parser of this.parsers) wire.stream.off('data', parser);
    super.submit(wire);
  }

  private readonly receive = (bytes: Buffer): void => {
    const rest = this.begunBytes > 0 ? this.completeMessage(bytes) : bytes;
    if (rest.length > 0) this.processMessages(rest);
    if (this.waitingBytes > BUFFERED_BYTES_MAX) this.wire?.stream.pause();
    if (this.waiting.length > 0) this.wake();
  };

  /** Processes the message that began in earlier bytes, if it is complete now. Returns the remaining bytes. */
  private completeMessage(bytes: Buffer): Buffer {
    const first = this.begun[0] as Buffer;
    const missing = first.length < HEADER_BYTES ? bytes.length : endOf(first, 0) - this.begunBytes;
    const part = bytes.subarray(0, missing);
    this.begun.push(part);
    this.begunBytes += part.length;
    if (part.length < missing) return bytes.subarray(part.length);
    const message = Buffer.concat(this.begun);
    this.begun = [];
    this.begunBytes = 0;
    this.processMessages(message);
    return bytes.subarray(missing);
  }

  /** Processes the messages, the last of which may be incomplete. */
  private processMessages(bytes: Buffer): void {
    const starts: number[] = [];
    const ends: number[] = [];
    let at = 0;
    for (let end = endOf(bytes, at); end <= bytes.length; end = endOf(bytes, at)) {
      if (bytes[at] !== ROW_MESSAGE) {
        // C1: The parser may begin the next statement when it gets the last message, and what follows belongs to that statement.
        const isLast = bytes[at] === READY_MESSAGE;
        if (isLast) this.restoreParsers();
        this.forward(bytes.subarray(at, isLast ? bytes.length : end));
        if (isLast) end = bytes.length;
      } else {
        starts.push(at + HEADER_BYTES);
        ends.push(end);
      }
      at = end;
    }
    if (starts.length > 0) {
      this.waiting.push({ bytes, starts, ends });
      this.waitingBytes += bytes.length;
    }
    if (at === bytes.length) return;
    this.begun = [bytes.subarray(at)];
    this.begunBytes = bytes.length - at;
  }

  /** C1: Restores pg's own parser on the socket. */
  private restoreParsers(): void {
    for (const parser of this.parsers) this.wire?.stream.on('data', parser);
    this.wire?.stream.off('data', this.receive);
  }

  private forward(bytes: Buffer): void {
    for (const parser of this.parsers) parser(bytes);
  }

  override handleError(error: Error): void {
    this.error = error;
    this.handleReadyForQuery();
  }

  override handleReadyForQuery(): void {
    this.ended = true;
    this.wake();
  }

  /** Returns the next rows that have arrived; null at the end. */
  async next(): Promise<RowBatch | null> {
    while (this.waiting.length === 0 && !this.ended) await new Promise<void>((resolve) => (this.wake = resolve));
    const slab = this.waiting.shift();
    if (slab === undefined && this.error !== null) throw this.error;
    if (slab === undefined) return null;
    this.waitingBytes -= slab.bytes.length;
    if (this.waitingBytes <= BUFFERED_BYTES_MAX) this.wire?.stream.resume();
    return slab;
  }

  /** Destroys the connection, because the server can't be stopped from sending the rest. */
  abandon(): void {
    if (!this.ended) this.wire?.stream.destroy();
  }
}

/** Returns the end of the message that begins at the offset; infinity if its header is not there. */
function endOf(bytes: Buffer, at: number): number {
  // The length counts itself, but not the code before it.
  return at + HEADER_BYTES > bytes.length ? Infinity : at + 1 + bytes.readInt32BE(at + 1);
}

/** Returns the rows without the bytes between them. They are moved together within the slab, which can't be used after that. */
export function rowsOf({ bytes, starts, ends }: RowBatch): Buffer {
  let size = 0;
  for (const [n, start] of starts.entries()) {
    const end = ends[n] as number;
    bytes.copyWithin(size, start, end);
    size += end - start;
  }
  return bytes.subarray(0, size);
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
      // The server's own error arrives later and says less.
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

/** Reads the output of `COPY … TO STDOUT` in whole rows; a slow reader makes the server wait. Stopping early ends the connection. */
export async function* copyOut(client: pg.ClientBase, text: string): AsyncGenerator<RowBatch> {
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
