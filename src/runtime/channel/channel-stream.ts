/**
 * One call of the supervisor: its response heads, its input and its outputs.
 *
 * Owns: the credit in both directions, and the output that its reader has not consumed. Does not own the connection (`Channel`).
 *
 * S1  More output than there is credit for breaks the protocol. Credit is given for output as it is consumed.
 * S2  Input is sent only within the supervisor's window.
 * S3  A call that was abandoned is over here at once, and the channel watches whether the supervisor ends it in time.
 */
import { ChannelBroken, DATA_BYTES_MAX, decodeFields, encodeFields, FrameType, type Frame } from './frames.ts';
import { WaitingOutput, type StreamOutput } from './waiting-output.ts';

/** The least consumed output, in bytes, for which credit is given, since each credit costs a frame. */
const CREDIT_BYTES_MIN = 32 * 1024;
const HEADS_MAX = 4;
const RESULT_PREFIX_BYTES = 12;

/** The end of a call, as the supervisor reports it. */
export interface StreamEnd {
  /** The outcome of the call, such as `exit`, and its fields. */
  result: string[];
  /** The bytes of output that were dropped in the container, beyond the bound of the call. */
  droppedBytes: number;
}

/** The stream of one call. See S1 to S3. */
export class ChannelStream {
  private readonly heads: Buffer[][] = [];
  private readonly outputs = new WaitingOutput();
  private waiting: (() => void)[] = [];
  private end: StreamEnd | null = null;
  private failure: Error | null = null;
  private abandonedSince: number | null = null;
  private window: number;
  private uncredited = 0;
  private abandoning: NodeJS.Timeout | undefined;

  constructor(
    private readonly send: (type: FrameType, payload: Buffer | null) => void,
    /** The bytes of output that the supervisor may send. */
    private credit: number,
    private readonly inputWindowBytes: number,
  ) {
    this.window = inputWindowBytes;
  }

  /** Returns the next response head; null if the stream ended without one. Throws `ChannelBroken`. */
  async head(): Promise<Buffer[] | null> {
    for (;;) {
      const head = this.heads.shift();
      if (head !== undefined) return head;
      if (await this.isOver()) return null;
    }
  }

  /** S1: Yields the output as it arrives, and gives credit for what was consumed. Throws `ChannelBroken`. */
  async *output(): AsyncGenerator<StreamOutput> {
    for (;;) {
      const next = this.outputs.shift();
      if (next !== undefined) {
        yield next;
        this.giveCredit(next.bytes.length);
      } else if (await this.isOver()) {
        return;
      }
    }
  }

  /** Returns the outcome of the call once it has ended. Output that is not read delays the end. Throws `ChannelBroken`. */
  async ended(): Promise<StreamEnd> {
    while (!(await this.isOver()));
    return this.end as StreamEnd;
  }

  /** S2: Sends input, as fast as the call accepts it. Input of a call that has ended is dropped. Throws `ChannelBroken`. */
  async write(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length && this.end === null) {
      if (this.failure !== null) throw this.failure;
      const size = Math.min(bytes.length - at, this.window, DATA_BYTES_MAX);
      if (size > 0) this.send(FrameType.data, bytes.subarray(at, at + size));
      else await this.nextChange();
      this.window -= size;
      at += size;
    }
  }

  /** Marks the end of the input. */
  endInput(): void {
    if (this.end === null) this.send(FrameType.end, null);
  }

  /** Asks the supervisor to end the call. The END frame still arrives. */
  reset(): void {
    if (this.end === null) this.send(FrameType.reset, null);
  }

  /** Ends the call as `reset` does, or abandons it if the END frame has not arrived within `ms`. */
  resetWithin(ms: number): void {
    if (this.end !== null || this.failure !== null || this.abandoning !== undefined) return;
    this.reset();
    this.abandoning = setTimeout(() => this.abandon(), ms).unref();
  }

  /** S3: The time, by `performance.now()`, at which the call was abandoned; null if it was not. */
  get abandonedAt(): number | null {
    return this.abandonedSince;
  }

  /** S3: Ends the call here, without waiting for the supervisor. */
  abandon(): void {
    if (this.end !== null) return;
    this.reset();
    this.abandonedSince = performance.now();
    this.end = { result: ['refused', 'abandoned', ''], droppedBytes: 0 };
    this.notifyChange();
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
    this.notifyChange();
    return type === FrameType.end;
  }

  /** Ends the stream with the channel. */
  break(error: Error): void {
    this.failure = error;
    clearTimeout(this.abandoning);
    this.notifyChange();
  }

  private endBy(payload: Buffer): void {
    this.end ??= endOf(payload);
    clearTimeout(this.abandoning);
  }

  private addOutput(output: number, payload: Buffer): void {
    if (output !== 1 && output !== 2) throw new ChannelBroken('an output is neither stdout nor stderr');
    if (payload.length === 0 || payload.length > this.credit) throw new ChannelBroken('more output came than there was credit for');
    this.credit -= payload.length;
    if (this.end !== null) return;
    this.outputs.add(output === 1 ? 'stdout' : 'stderr', payload);
  }

  private addHead(payload: Buffer): void {
    if (this.heads.length === HEADS_MAX) throw new ChannelBroken('there are too many response heads');
    this.heads.push(decodeFields(payload));
  }

  private addCredit(payload: Buffer): void {
    if (payload.length !== 4) throw new ChannelBroken('a credit is not a number');
    const bytes = payload.readUInt32LE(0);
    if (bytes === 0) throw new ChannelBroken('a credit is zero');
    this.window += bytes;
    if (this.window > this.inputWindowBytes) throw new ChannelBroken('there is more credit than was used');
  }

  private giveCredit(bytes: number): void {
    this.uncredited += bytes;
    if (this.uncredited < CREDIT_BYTES_MIN || this.end !== null) return;
    const credit = Buffer.allocUnsafe(4);
    credit.writeUInt32LE(this.uncredited);
    this.credit += this.uncredited;
    this.uncredited = 0;
    this.send(FrameType.credit, credit);
  }

  /** Resolves to true once the stream has ended, and to false after any other change. */
  private async isOver(): Promise<boolean> {
    if (this.end !== null) return true;
    if (this.failure !== null) throw this.failure;
    await this.nextChange();
    return false;
  }

  private nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
    });
  }

  private notifyChange(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

function endOf(payload: Buffer): StreamEnd {
  if (payload.length < RESULT_PREFIX_BYTES || payload.readUInt32LE(0) !== 8) throw new ChannelBroken('an END frame has no result');
  const dropped = payload.readBigUInt64LE(4);
  const droppedBytes = dropped > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(dropped);
  return { result: decodeFields(payload.subarray(RESULT_PREFIX_BYTES)).map((field) => field.toString('utf8')), droppedBytes };
}
