/*
 * One connection to a desktop by RFB 3.8, as the client: input, frames of the screen, and the clipboard.
 *
 * It owns the stream and the protocol's state. It does not own reconnecting, the order of batches, or the encoding of pictures
 * (`DesktopDriver`).
 *
 * Invariants:
 * C1. Pixels are requested only when a frame is wanted. After each frame the server is asked to report the next change, which costs an idle
 *     desktop nothing and tells that the frame is still what the screen shows.
 * C2. A frame that is given out was on the screen after the caller asked, even if it comes from memory: the server has confirmed that
 *     nothing changed.
 * C3. Input is done when `input` resolves: a fence (or, without fences, a request for one pixel) comes back after it.
 * C4. A server that breaks the protocol, does not answer in time, or does not read ends the connection; then every wait ends with the same
 *     error.
 * C5. Memory is bounded: at most two frames, what the stream buffers, and OUTPUT_BYTES_MAX. A server that sends what was not requested is
 *     read slowly.
 */

import type { Duplex } from 'node:stream';

import { pause } from '../../kernel/async/pause.ts';
import { SerialQueue } from '../../kernel/async/serial-queue.ts';
import { ByteReader } from './byte-reader.ts';
import * as client from './client-messages.ts';
import { clientCutText, clipboardCaps, clipboardNotify, clipboardProvide } from './clipboard-messages.ts';
import { DesktopTimeout, DesktopUnreachable, ScreenGrew } from './desktop-errors.ts';
import { checkSize, FrameAssembly, frameBytes, type Frame, type Rectangle, type ScreenSize } from './frame.ts';
import { handshake } from './handshake.ts';
import { readMessage, type ServerListener } from './server-messages.ts';

/** C4: the longest wait for an answer of the server, in ms. */
const ANSWER_TIMEOUT_MS = 10_000;
/** A server has drawn a change after this time, in ms: three frames at 30 per second. */
const SETTLED_MS = 100;
/** C5: the most bytes that wait for a server that does not read. */
const OUTPUT_BYTES_MAX = 1_048_576;
/** C5: after this many bytes that were not requested, reading pauses. A message counts as at least MESSAGE_BYTES_MIN. */
const UNREQUESTED_BYTES_MAX = 65_536;
const MESSAGE_BYTES_MIN = 64;
const UNREQUESTED_PAUSE_MS = 100;
/** A frame is started again at most this many times because the screen has changed its size. */
const FRAME_STARTS_MAX = 8;
/** A frame that is not asked for again is freed after this time, in ms. */
const FRAME_CACHED_MS = 10_000;

export interface RfbOptions {
  /** Leaves the pointer out of the frames. */
  hidePointer?: boolean;
  timeoutMs?: number;
}

/**
 * A connection to a desktop by RFB 3.8. It ends itself after a violation of the protocol or a timeout, and is not reopened.
 */
export class RfbConnection implements ServerListener {
  size: ScreenSize = { width: 0, height: 0 };
  /** The place of the pointer as the server last reported it; null if it never did. */
  pointer: { x: number; y: number } | null = null;

  private readonly reader: ByteReader;
  private failure: Error | null = null;
  private supportsFences = false;
  private supportsClipboard = false;
  private readonly fences = new Map<number, () => void>();
  private nextFence = 1;

  private frame: Frame | null = null;
  private versions = 0;
  private frameTimer: NodeJS.Timeout | undefined;
  private assembly: FrameAssembly | null = null;
  /** The pixels that the assembly lacked when the update began. */
  private missingBefore = 0;
  /** Called at the end of an update, or of the connection. */
  private onUpdate: (() => void)[] = [];
  /** The time since which a report of the next change is pending; null once the change was reported. */
  private watchedSince: number | null = null;
  private inputAt = -Infinity;
  private readonly captures = new SerialQueue();
  private nextCapture: Promise<Frame> | null = null;

  private offeredText: Buffer | null = null;
  private onTextRequest: (() => void)[] = [];

  private constructor(
    private readonly stream: Duplex,
    private readonly options: RfbOptions,
  ) {
    this.reader = new ByteReader(stream);
    stream.once('close', () => this.fail(new DesktopUnreachable('the connection was closed')));
    stream.on('error', (error) => this.fail(new DesktopUnreachable(error.message)));
  }

  /** Returns the connection once the server has answered. Destroys the stream if it throws. */
  static async open(stream: Duplex, options: RfbOptions = {}): Promise<RfbConnection> {
    const connection = new RfbConnection(stream, options);
    await connection.withTimeout('greeting', connection.greet());
    void connection.receive();
    // A server that supports fences sends one before it answers this.
    await connection.captures.run(() => connection.requestPixel());
    return connection;
  }

  get isOpen(): boolean {
    return this.failure === null;
  }

  close(): void {
    this.fail(new DesktopUnreachable('the connection was closed'));
  }

  /** Sends key and pointer events. C3: resolves when the server has processed them. */
  async input(events: readonly Buffer[]): Promise<void> {
    this.write(Buffer.concat(events));
    this.inputAt = performance.now();
    await this.barrier();
    this.inputAt = performance.now();
  }

  /** C3: resolves when the server has processed everything that was sent. */
  async barrier(): Promise<void> {
    if (!this.supportsFences) {
      await this.captures.run(() => this.requestPixel());
      return;
    }
    const id = this.nextFence;
    this.nextFence = (id % 0xffff_ffff) + 1;
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(id);
    const answered = new Promise<void>((resolve) => this.fences.set(id, resolve));
    this.write(client.fence(client.FENCE_REQUEST | client.FENCE_BLOCK_BEFORE, payload));
    await this.withTimeout('answer to input', answered);
  }

  /**
   * Returns what the screen shows. Callers that wait at the same time share one frame, which is requested after the last of them asked. Throws
   * `ScreenGrew` if the frame needs more than `bytesMax` bytes, as the first of these callers gave it.
   */
  capture(bytesMax = Infinity): Promise<Frame> {
    this.nextCapture ??= this.captures.run(() => {
      this.nextCapture = null;
      return this.currentFrame(bytesMax);
    });
    return this.nextCapture;
  }

  /** The bytes of the cached frame. */
  get keptBytes(): number {
    return this.frame?.pixels.length ?? 0;
  }

  /** Evicts the cached frame. */
  evictFrame(): void {
    clearTimeout(this.frameTimer);
    this.frame = null;
  }

  /**
   * Offers a text to the desktop's programs. `requested` resolves when a program has received it, or immediately if the server has no extended
   * clipboard and receives the text right away. Throws `RangeError` for a text that such a server can't hold.
   */
  async offerText(text: string): Promise<{ requested: Promise<void> }> {
    if (!this.supportsClipboard) {
      if (Buffer.from(text, 'latin1').toString('latin1') !== text)
        throw new RangeError('the clipboard of this desktop holds Latin-1 characters only');
      await this.input([clientCutText(text)]);
      return { requested: Promise.resolve() };
    }
    this.offeredText = clipboardProvide(text);
    const requested = new Promise<void>((resolve) => this.onTextRequest.push(resolve));
    await this.input([clipboardNotify()]);
    return { requested };
  }

  beginUpdate(): boolean {
    const isAsked = this.onUpdate.length > 0 || this.watchedSince !== null;
    this.watchedSince = null;
    this.missingBefore = this.assembly?.missing ?? 0;
    return isAsked;
  }

  async readPixels(rectangle: Rectangle): Promise<void> {
    if (this.assembly === null) await this.reader.skip(rectangle.width * rectangle.height * 4);
    else await this.assembly.read(this.reader, rectangle);
  }

  endUpdate(): boolean {
    this.resolveAll('onUpdate');
    return this.assembly === null || this.assembly.missing < this.missingBefore;
  }

  resize(size: ScreenSize): void {
    checkSize(size);
    this.size = size;
    this.frame = null;
    this.assembly = null;
  }

  movePointer(x: number, y: number): void {
    this.pointer = { x, y };
  }

  receiveFence(flags: number, payload: Buffer): void {
    this.supportsFences = true;
    if ((flags & client.FENCE_REQUEST) !== 0) {
      this.write(client.fenceReply(flags, payload));
      return;
    }
    const id = payload.length === 4 ? payload.readUInt32BE() : 0;
    this.fences.get(id)?.();
    this.fences.delete(id);
  }

  receiveClipboard(action: 'caps' | 'request'): void {
    if (action === 'caps') {
      this.supportsClipboard = true;
      this.write(clipboardCaps());
    } else if (this.offeredText !== null) {
      this.write(this.offeredText);
      this.resolveAll('onTextRequest');
    }
  }

  private async greet(): Promise<void> {
    this.size = await handshake(this.reader, this.stream);
    const { raw, desktopSize, cursorPosition, fence, extendedClipboard, cursor } = client.ENCODING;
    const encodings = [raw, desktopSize, cursorPosition, fence, extendedClipboard, ...(this.options.hidePointer === true ? [cursor] : [])];
    this.write(Buffer.concat([client.setPixelFormat(), client.setEncodings(encodings)]));
  }

  private async receive(): Promise<void> {
    let unrequested = 0;
    try {
      for (;;) {
        const bytes = await readMessage(this.reader, this);
        unrequested += bytes === 0 ? 0 : Math.max(bytes, MESSAGE_BYTES_MIN);
        if (unrequested > UNREQUESTED_BYTES_MAX) {
          unrequested = 0;
          await pause(UNREQUESTED_PAUSE_MS, undefined, { ref: false });
        }
      }
    } catch (error) {
      this.fail(error as Error);
    }
  }

  private async currentFrame(bytesMax: number): Promise<Frame> {
    if (this.isUnchanged()) {
      await this.barrier();
      if (this.isUnchanged() && this.frame !== null) return this.cacheFrame(this.frame);
    }
    const frame = await this.withTimeout('frame', this.requestFrame(bytesMax));
    if (frame === null) throw new ScreenGrew();
    return frame;
  }

  /** C1, C2: returns whether the server had enough time to report a change, and has reported none. */
  private isUnchanged(): boolean {
    const now = performance.now();
    if (this.frame === null || this.watchedSince === null) return false;
    return now - this.watchedSince >= SETTLED_MS && now - this.inputAt >= SETTLED_MS;
  }

  /** Returns null if the frame needs more bytes than that. */
  private async requestFrame(bytesMax: number): Promise<Frame | null> {
    let wanted: FrameAssembly | null = null;
    let begun = 0;
    this.watchedSince = null;
    try {
      while (wanted?.isComplete !== true) {
        // It is the first request, or the screen has changed its size meanwhile.
        if (wanted === null || this.assembly !== wanted) {
          begun += 1;
          if (begun > FRAME_STARTS_MAX) throw new DesktopUnreachable('its screen keeps changing its size');
          if (frameBytes(this.size) > bytesMax) return null;
          wanted = new FrameAssembly(this.size);
          this.assembly = wanted;
          this.write(client.updateRequest(false, this.size.width, this.size.height));
        }
        await this.updated();
        // A server leaves out the parts that change at that moment, even all but the pointer, and sends them only when asked again.
        if (this.assembly === wanted && !wanted.isComplete) this.write(client.updateRequest(true, this.size.width, this.size.height));
      }
    } finally {
      this.assembly = null;
    }
    const { size } = wanted;
    const pixels = wanted.finish();
    const isSame = this.frame?.pixels.equals(pixels) === true;
    const frame = isSame && this.frame !== null ? this.frame : { ...size, pixels, version: (this.versions += 1) };
    if (this.supportsFences) {
      this.write(client.updateRequest(true, size.width, size.height));
      this.watchedSince = performance.now();
    }
    return this.cacheFrame(frame);
  }

  private cacheFrame(frame: Frame): Frame {
    clearTimeout(this.frameTimer);
    this.frame = frame;
    this.frameTimer = setTimeout(() => (this.frame = null), FRAME_CACHED_MS).unref();
    return frame;
  }

  private async requestPixel(): Promise<void> {
    this.write(client.updateRequest(false, 1, 1));
    await this.withTimeout('frame', this.updated());
  }

  private async updated(): Promise<void> {
    const update = new Promise<void>((resolve) => this.onUpdate.push(resolve));
    await update;
    if (this.failure !== null) throw this.failure;
  }

  /** C4: ends the connection if the work takes too long. */
  private async withTimeout<T>(what: string, work: Promise<T>): Promise<T> {
    const ms = this.options.timeoutMs ?? ANSWER_TIMEOUT_MS;
    const timer = setTimeout(() => this.fail(new DesktopTimeout(what, ms)), ms);
    try {
      const result = await work;
      if (this.failure !== null) throw this.failure;
      return result;
    } catch (error) {
      this.fail(error as Error);
      throw this.failure ?? error;
    } finally {
      clearTimeout(timer);
    }
  }

  private write(message: Buffer): void {
    if (this.failure !== null) throw this.failure;
    if (this.stream.writableLength > OUTPUT_BYTES_MAX) throw new DesktopUnreachable('it does not read what it is sent');
    this.stream.write(message);
  }

  private resolveAll(name: 'onUpdate' | 'onTextRequest'): void {
    const waiting = this[name];
    this[name] = [];
    for (const resolve of waiting) resolve();
  }

  private fail(error: Error): void {
    if (this.failure !== null) return;
    this.failure = error;
    this.reader.fail(error);
    this.stream.destroy();
    this.evictFrame();
    this.offeredText = null;
    for (const resolve of this.fences.values()) resolve();
    this.fences.clear();
    this.resolveAll('onUpdate');
    this.resolveAll('onTextRequest');
  }
}
