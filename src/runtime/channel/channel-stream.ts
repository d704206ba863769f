import { ChannelBroken, DATA_BYTES_MAX, decodeFields, encodeFields, FrameType, type Frame } from './frames.ts';
import { WaitingOutput, type StreamOutput } from './waiting-output.ts';

/** An output of less than this is not credited at once, since each credit costs a frame, bytes. */
const CREDIT_BYTES_MIN = 32 * 1024;
const HEADS_MAX = 4;
const RESULT_PREFIX_BYTES = 12;

/** The last word of the supervisor about a stream. */
export interface StreamEnd {
  /** The outcome of the call, such as `exit`, and its fields. */
  result: string[];
  /** The bytes of output that were dropped in the container, beyond the bound of the call. */
  droppedBytes: number;
}

/** One call of the supervisor: its answers, its input and its outputs. */
export class ChannelStream {
  private readonly heads: Buffer[][] = [];
  private readonly outputs = new WaitingOutput();
  private waiting: (() => void)[] = [];
  private end: StreamEnd | null = null;
  private failure: Error | null = null;
  private since: number | null = null;
  private window: number;
  private owed = 0;
  private abandoning: NodeJS.Timeout | undefined;

  constructor(
    private readonly send: (type: FrameType, payload: Buffer | null) => void,
    /** The bytes of output that the supervisor may send. */
    private credit: number,
    private readonly inputWindowBytes: number,
  ) {
    this.window = inputWindowBytes;
  }

  /** Returns the next answer; null if the stream ended without one. Throws `ChannelBroken`. */
  async head(): Promise<Buffer[] | null> {
    for (;;) {
      const head = this.heads.shift();
      if (head !== undefined) return head;
      if (await this.isOver()) return null;
    }
  }

  /** Yields the output as it comes, and lets as much more come as was taken. Throws `ChannelBroken`. */
  async *output(): AsyncGenerator<StreamOutput> {
    for (;;) {
      const next = this.outputs.shift();
      if (next !== undefined) {
        yield next;
        this.repay(next.bytes.length);
      } else if (await this.isOver()) {
        return;
      }
    }
  }

  /** Returns what the call has come to. Output that nobody reads holds it up. Throws `ChannelBroken`. */
  async ended(): Promise<StreamEnd> {
    while (!(await this.isOver()));
    return this.end as StreamEnd;
  }

  /** Sends input, as fast as the call takes it. Input of a call that has ended is dropped. Throws `ChannelBroken`. */
  async write(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length && this.end === null) {
      if (this.failure !== null) throw this.failure;
      const size = Math.min(bytes.length - at, this.window, DATA_BYTES_MAX);
      if (size > 0) this.send(FrameType.data, bytes.subarray(at, at + size));
      else await this.change();
      this.window -= size;
      at += size;
    }
  }

  /** Says that the input was sent whole. */
  endInput(): void {
    if (this.end === null) this.send(FrameType.end, null);
  }

  /** Ends the call. Its end still comes. */
  reset(): void {
    if (this.end === null) this.send(FrameType.reset, null);
  }

  /** Ends the call as `reset` does, and here without the supervisor if its end has not come within so many ms. */
  resetWithin(ms: number): void {
    if (this.end !== null || this.failure !== null || this.abandoning !== undefined) return;
    this.reset();
    this.abandoning = setTimeout(() => this.abandon(), ms).unref();
  }

  /** The time since when the supervisor has owed the end of a call that was abandoned, as `performance.now()`; null if it does not. */
  get abandonedAt(): number | null {
    return this.since;
  }

  /** Ends the call here, without waiting for the supervisor: it comes to nothing. */
  abandon(): void {
    if (this.end !== null) return;
    this.reset();
    this.since = performance.now();
    this.end = { result: ['refused', 'abandoned', ''], droppedBytes: 0 };
    this.changed();
  }

  control(...fields: string[]): void {
    if (this.end === null) this.send(FrameType.control, encodeFields(fields));
  }

  /** Applies a frame of the supervisor. Returns whether the stream has ended. Throws `ChannelBroken`. */
  handle({ type, output, payload }: Frame): boolean {
    if (type === FrameType.data) this.addOutput(output, payload);
    else if (type === FrameType.head) this.addHead(payload);
    else if (type === FrameType.credit) this.addCredit(payload);
    else this.endBy(payload);
    this.changed();
    return type === FrameType.end;
  }

  /** Ends the stream with the channel. */
  break(error: Error): void {
    this.failure = error;
    clearTimeout(this.abandoning);
    this.changed();
  }

  private endBy(payload: Buffer): void {
    this.end ??= endOf(payload);
    clearTimeout(this.abandoning);
  }

  private addOutput(output: number, payload: Buffer): void {
    if (output !== 1 && output !== 2) throw new ChannelBroken('an output has no name');
    if (payload.length === 0 || payload.length > this.credit) throw new ChannelBroken('more output came than there was credit for');
    this.credit -= payload.length;
    if (this.end !== null) return;
    this.outputs.add(output === 1 ? 'stdout' : 'stderr', payload);
  }

  private addHead(payload: Buffer): void {
    if (this.heads.length === HEADS_MAX) throw new ChannelBroken('there are too many answers');
    this.heads.push(decodeFields(payload));
  }

  private addCredit(payload: Buffer): void {
    if (payload.length !== 4) throw new ChannelBroken('a credit is no number');
    const bytes = payload.readUInt32LE(0);
    if (bytes === 0) throw new ChannelBroken('a credit is of nothing');
    this.window += bytes;
    if (this.window > this.inputWindowBytes) throw new ChannelBroken('there is more credit than was used');
  }

  private repay(bytes: number): void {
    this.owed += bytes;
    if (this.owed < CREDIT_BYTES_MIN || this.end !== null) return;
    const credit = Buffer.allocUnsafe(4);
    credit.writeUInt32LE(this.owed);
    this.credit += this.owed;
    this.owed = 0;
    this.send(FrameType.credit, credit);
  }

  /** Resolves to true once the stream has ended, to false after any change before. */
  private async isOver(): Promise<boolean> {
    if (this.end !== null) return true;
    if (this.failure !== null) throw this.failure;
    await this.change();
    return false;
  }

  private change(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
    });
  }

  private changed(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

function endOf(payload: Buffer): StreamEnd {
  if (payload.length < RESULT_PREFIX_BYTES || payload.readUInt32LE(0) !== 8) throw new ChannelBroken('an end has no result');
  const dropped = payload.readBigUInt64LE(4);
  const droppedBytes = dropped > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(dropped);
  return { result: decodeFields(payload.subarray(RESULT_PREFIX_BYTES)).map((field) => field.toString('utf8')), droppedBytes };
}
