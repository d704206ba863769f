/**
 * Many streams over one connection to the supervisor in a container.
 *
 * Owns: the connection and the numbers of the streams. Does not own what a stream means, which is its caller's (`ChannelFiles`,
 * `ChannelCommands`, …). The other side is not trusted: a program in the container may have replaced it.
 *
 * C1  A stream ends once: by the supervisor's END frame, or with the channel. A frame for a stream that has ended breaks the protocol, so
 *     that nobody can send bytes that count for no stream.
 * C2  A stream gets no more output than it gave credit for, so its reader bounds what is buffered.
 * C3  Whatever breaks the protocol ends the channel, with all of its streams.
 * C4  Small frames are limited in rate, and unsent bytes in number.
 */
import type { Writable } from 'node:stream';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { TokenBucket } from '../../kernel/limits/token-bucket.ts';
import { ChannelStream } from './channel-stream.ts';
import {
  ChannelBroken,
  decodeFields,
  encodeFields,
  encodeFrame,
  FrameParser,
  FrameType,
  OPEN_BYTES_MAX,
  OtherVersion,
  PROTOCOL_VERSION,
  type Frame,
} from './frames.ts';

const NAME = 'mooring-supervisor';
const STREAM_NUMBER_MAX = 0xffff_ffff;
/** C4: The most bytes that wait for the supervisor to read them: the windows of all streams, and as much again for their calls. */
const UNSENT_BYTES_MAX = 32 * 1024 * 1024;
/** C4: The size in bytes below which frames are counted. The credit for their bytes covers larger ones. */
const COUNTED_FRAME_BYTES = 1_024;
/** C4: The rate and the burst of small frames from one agent that are parsed: each costs the service time, whatever its content. */
const SMALL_FRAMES = { perSecond: 10_000, savedMax: 20_000 };
/** The time within which a supervisor ends a call that was abandoned, in ms. It kills the worker after 15 s. */
const STUCK_MS = 25_000;

/** The other side of a channel: a process in the container. */
export interface ChannelTransport {
  /** Calls back with the bytes that the process prints. An error of the callback must reach `onEnd`. */
  onBytes(callback: (bytes: Buffer) => void): void;
  /** Calls back once no more bytes arrive. */
  onEnd(callback: (error: Error | null) => void): void;
  readonly input: Writable;
  /** Pauses reading for that time. */
  pauseReading(ms: number): void;
  close(): void;
}

/** The protocol's limits that the supervisor announced. */
export interface ChannelLimits {
  /** The bytes of input of a stream that may be sent before more credit arrives. */
  inputWindowBytes: number;
  streamsMax: number;
}

/** A channel to a supervisor. See C1 to C4. */
export class Channel {
  private readonly streams = new Map<number, ChannelStream>();
  private readonly parser = new FrameParser();
  private readonly smallFrames = new TokenBucket(SMALL_FRAMES);
  private next = 1;
  private thawedAt = 0;
  private failure: Error | null = null;
  private announced: ChannelLimits | null = null;
  private readonly greeted = deferred();
  private readonly closing = deferred();
  private freeWaiters: (() => void)[] = [];

  private constructor(private readonly transport: ChannelTransport) {
    // Nothing awaits the promise any more once `open` has thrown.
    this.greeted.promise.catch(() => undefined);
    transport.input.on('error', (error) => this.fail(error));
    transport.onBytes((bytes) => this.receive(bytes));
    transport.onEnd((error) => this.fail(error ?? new ChannelBroken('it ended')));
  }

  /** Returns the channel once the supervisor has sent its greeting. Throws `ChannelBroken`, also if it speaks another version. */
  static async open(transport: ChannelTransport): Promise<Channel> {
    const channel = new Channel(transport);
    await channel.greeted.promise;
    return channel;
  }

  get limits(): ChannelLimits {
    if (this.announced === null) throw new ChannelBroken('it has not greeted');
    return this.announced;
  }

  /** The number of streams that have not ended. */
  get size(): number {
    return this.streams.size;
  }

  get isOpen(): boolean {
    return this.failure === null;
  }

  /** The value is true if the supervisor does not follow its calls: a process in the container has stopped it. */
  get isStuck(): boolean {
    const before = performance.now() - STUCK_MS;
    return [...this.streams.values()].some(({ abandonedAt }) => abandonedAt !== null && Math.max(abandonedAt, this.thawedAt) < before);
  }

  /** Notes that the supervisor runs again. While it was frozen it could not follow its calls. */
  noteThaw(): void {
    this.thawedAt = performance.now();
  }

  /** Resolves when the channel has ended, for whatever reason. */
  get closed(): Promise<void> {
    return this.closing.promise;
  }

  /** Resolves when the supervisor accepts one more stream. Throws the signal's reason if the signal aborts first. */
  async free(signal: AbortSignal): Promise<void> {
    while (this.failure === null && this.streams.size >= this.limits.streamsMax)
      await raceAbort(new Promise<void>((resolve) => this.freeWaiters.push(resolve)), signal);
  }

  /** Opens a stream for a call of the supervisor. Throws `ChannelBroken` if the channel has ended. */
  open(call: readonly (string | Buffer)[], creditBytes: number): ChannelStream {
    if (this.failure !== null) throw this.failure;
    const payload = encodeFields(call, 4);
    if (payload.length > OPEN_BYTES_MAX) throw new RangeError('the call has too many bytes for one frame');
    payload.writeUInt32LE(creditBytes, 0);
    while (this.streams.has(this.next)) this.advance();
    const id = this.next;
    this.advance();
    const stream = new ChannelStream((type, content) => this.send(id, type, content), creditBytes, this.limits.inputWindowBytes);
    this.streams.set(id, stream);
    this.send(id, FrameType.open, payload);
    return stream;
  }

  close(): void {
    this.fail(new ChannelBroken('it was closed'));
  }

  private advance(): void {
    this.next = this.next === STREAM_NUMBER_MAX ? 1 : this.next + 1;
  }

  private send(id: number, type: FrameType, payload: Buffer | null): void {
    if (this.failure !== null) return;
    this.transport.input.write(encodeFrame(id, type, payload));
    if (this.transport.input.writableLength > UNSENT_BYTES_MAX) this.fail(new ChannelBroken('it reads nothing'));
  }

  private receive(bytes: Buffer): void {
    if (this.failure !== null) return;
    let small = 0;
    try {
      for (const frame of this.parser.push(bytes)) {
        if (frame.payload.length < COUNTED_FRAME_BYTES) small += 1;
        this.handle(frame);
      }
    } catch (error) {
      this.fail(error as Error);
      return;
    }
    const ms = Math.ceil(this.smallFrames.spend(small, performance.now()));
    if (ms > 0) this.transport.pauseReading(ms);
  }

  private handle(frame: Frame): void {
    if (this.announced === null) {
      this.applyGreeting(frame);
      return;
    }
    if (frame.type === FrameType.hello) throw new ChannelBroken('it greeted twice');
    const stream = this.streams.get(frame.stream);
    if (stream === undefined) throw new ChannelBroken('a frame of an unknown stream arrived');
    if (!stream.handle(frame)) return;
    this.streams.delete(frame.stream);
    this.wake();
  }

  private wake(): void {
    const { freeWaiters: waiting } = this;
    this.freeWaiters = [];
    for (const resolve of waiting) resolve();
  }

  private applyGreeting({ type, payload }: Frame): void {
    const [name, version, window, streams] = type === FrameType.hello ? decodeFields(payload).map(String) : [];
    if (name !== NAME) throw new ChannelBroken('it did not greet');
    if (version !== PROTOCOL_VERSION) throw new OtherVersion(`it speaks version ${String(version).slice(0, 20)} of the protocol`);
    this.announced = { inputWindowBytes: positive(window), streamsMax: positive(streams) };
    this.greeted.resolve();
  }

  private fail(error: Error): void {
    if (this.failure !== null) return;
    this.failure = error instanceof ChannelBroken ? error : new ChannelBroken(error.message, { cause: error });
    this.greeted.reject(this.failure);
    for (const stream of this.streams.values()) stream.break(this.failure);
    this.streams.clear();
    this.wake();
    this.transport.close();
    this.closing.resolve();
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } {
  let resolve: () => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

function positive(text: string | undefined): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1 || number > 2 ** 30)
    throw new ChannelBroken('it greeted with limits that are not numbers');
  return number;
}
