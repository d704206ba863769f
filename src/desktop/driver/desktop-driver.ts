/*
 * Drives one desktop for one process: runs batches of actions, and takes pictures.
 *
 * It owns the connections to the desktop (one for input and pictures, one for pictures without the pointer), the queue of batches, and the
 * latest encoded picture. It does not own how a connection is dialled, the memory of frames, or the turn among replicas: they come in as
 * `DesktopPorts`.
 *
 * Invariants:
 * D1. Batches run one at a time, in the order in which they came, and only while this process has the turn. Pictures are taken at any time.
 * D2. A lost connection is opened once more for each use; what fails after input was sent is in the outcome, and is never repeated.
 * D3. The first input on a new connection releases the buttons that an earlier connection may have left pressed, except those that are to
 *     stay pressed.
 * D4. The memory of a frame is reserved until the frame is encoded, even if the caller that asked for it has given up.
 * D5. After `close` nothing is opened any more, and what is being opened is destroyed.
 */

import type { Duplex } from 'node:stream';

import type { Batch, Point } from '../actions/canonical-actions.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { DesktopTimeout, DesktopUnreachable, ScreenGrew } from '../rfb/desktop-errors.ts';
import { frameBytes, type Frame, type ScreenSize } from '../rfb/frame.ts';
import { pointerEvent } from '../rfb/client-messages.ts';
import { RfbConnection } from '../rfb/rfb-connection.ts';
import type { EncodedImage, ImageOptions } from '../screen/encode-image.ts';
import { BatchQueue } from './batch-queue.ts';
import { runBatch, type BatchOutcome, type CapturePicture } from './batch-runner.ts';
import { InputDevice } from './input-device.ts';
import { ReopeningResource } from './reopening-resource.ts';
import type { LeftInput, Turn } from './turn.ts';

/** The longest time to open a stream to the desktop, in ms. */
const DIAL_TIMEOUT_MS = 10_000;
/** A picture is started at most this many times because the screen has grown meanwhile. */
const ATTEMPTS_MAX = 3;

export interface DesktopPorts {
  /** Opens a stream to the desktop's RFB server. */
  dial(signal: AbortSignal): Promise<Duplex>;
  encode(frame: Frame, options: ImageOptions): Promise<EncodedImage>;
  /** Reserves memory for a frame. Resolves with the function that releases it. */
  reserve(bytes: number, signal: AbortSignal): Promise<() => void>;
  /** The place of the pointer if it is known. A new desktop has it in the middle of the screen. */
  pointer?: Point | null;
  /** Waits until no other process puts input into the desktop. Without it, there is no other process. Throws the signal's reason. */
  turn?(signal: AbortSignal): Promise<Turn>;
}

/** A batch that waits for its turn. */
export interface BatchRequest {
  /** Returns the batch for a screen of this size. If it throws, `run` throws the same error and nothing was done. */
  batchFor: (size: ScreenSize) => Promise<Batch>;
  /** Reserves memory for a picture until the caller has sent it. Returns false if there is none. */
  reserveImage: (bytes: number) => boolean;
  /** Stops the input. Its reason is the error of the interrupted action. */
  stop?: AbortSignal;
}

interface Link {
  connection: RfbConnection;
  device: InputDevice;
  /** The value is true if input was sent over it. Taking pictures does not move the pointer. */
  hasInput: boolean;
}

interface Encoded {
  options: string;
  image: Promise<EncodedImage>;
}

/**
 * Drives one desktop over one connection, which is opened at the first use, and opened once more when it was lost. Batches run one after the
 * other, and pictures may be taken while a batch runs.
 */
export class DesktopDriver {
  private readonly link = new ReopeningResource<Link>(
    () => this.openLink(),
    ({ connection }) => connection.isOpen,
  );
  /** A second connection for pictures without the pointer, opened when the first such picture is wanted. */
  private readonly pointerless = new ReopeningResource<RfbConnection>(
    () => this.dial(true),
    ({ isOpen }) => isOpen,
  );
  private readonly batches = new BatchQueue();
  /** D5: aborts what is being opened. */
  private readonly closing = new AbortController();
  /** Returns the place of the pointer on the latest connection. */
  private pointer: (() => Point) | null = null;
  /** The bits of the buttons that another process has left pressed, until there is a connection. */
  private buttons = 0;
  /** The latest picture of each frame, for as long as the frame itself is in memory. */
  private images = new WeakMap<Frame, Encoded>();
  private imageBytes = 0;

  constructor(private readonly ports: DesktopPorts) {
    const { pointer = null } = ports;
    if (pointer !== null) this.pointer = () => pointer;
  }

  /**
   * Runs a batch when those before it are done. Throws `DesktopBusy`, `DesktopUnreachable` or `DesktopTimeout` before anything was done, and
   * the signal's reason when it aborts; what fails later is in the outcome.
   */
  run({ batchFor, reserveImage, stop }: BatchRequest, signal: AbortSignal): Promise<BatchOutcome> {
    return this.inTurn(signal, async (lost) => {
      const { connection, device } = await raceAbort(this.inputLink(), signal);
      const batch = await batchFor(connection.size);
      const picture: CapturePicture = (withCursor, optionsFor) => this.picture(withCursor, optionsFor, signal);
      const either = AbortSignal.any([signal, lost, ...(stop === undefined ? [] : [stop])]);
      return runBatch(batch, { connection, device, signal: either, caller: signal, picture, reserveImage });
    });
  }

  /**
   * Returns a picture of what the screen shows, with or without the pointer. A lost connection is opened once more. The latest picture of a
   * frame is kept, so a screen that does not change is encoded once. Throws what `optionsFor` throws.
   */
  async picture(withCursor: boolean, optionsFor: (frame: Frame) => ImageOptions, signal: AbortSignal): Promise<EncodedImage> {
    for (let growths = 0; growths < ATTEMPTS_MAX; growths += 1) {
      const { size } = await raceAbort(this.connectionFor(withCursor), signal);
      const bytes = frameBytes(size);
      const release = await this.ports.reserve(bytes, signal);
      // D4
      const taken = this.captureFrame(withCursor, bytes)
        .then((frame) => this.encodeCached(frame, optionsFor(frame)))
        .finally(release);
      taken.catch(() => undefined);
      try {
        return await raceAbort(taken, signal);
      } catch (error) {
        if (!(error instanceof ScreenGrew)) throw error;
      }
    }
    throw new DesktopUnreachable('its screen keeps growing');
  }

  /** The bytes of cached frames and pictures. */
  get keptBytes(): number {
    const frames = (this.link.value?.connection.keptBytes ?? 0) + (this.pointerless.value?.keptBytes ?? 0);
    return frames === 0 ? 0 : frames + this.imageBytes;
  }

  /** Evicts cached frames and pictures. The connections stay open. */
  evictFrames(): void {
    this.link.value?.connection.evictFrame();
    this.pointerless.value?.evictFrame();
    this.images = new WeakMap();
    this.imageBytes = 0;
  }

  /** Resolves with true once the desktop has answered. Throws `DesktopUnreachable` and `DesktopTimeout`. */
  async checkAnswers(signal: AbortSignal): Promise<true> {
    await raceAbort(this.checkedLink(), signal);
    return true;
  }

  /** Releases keys and buttons that another process may have left pressed, after the batches that wait. Throws what `run` throws. */
  releaseInput(signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      const { device } = await raceAbort(this.inputLink(), signal);
      await raceAbort(device.releaseAll(), signal);
    });
  }

  /** The place of the pointer; null if it is not known. */
  get pointerPosition(): Point | null {
    return this.pointer?.() ?? null;
  }

  /** The value is true if a button stays pressed after the batch that pressed it. */
  get holdsButton(): boolean {
    return this.leftInput.buttons !== 0;
  }

  private get leftInput(): LeftInput {
    return { pointer: this.pointerPosition, buttons: this.link.value?.device.keptButtons ?? this.buttons };
  }

  /** Notes where a person has moved the pointer, which the server does not report to its other clients. */
  async movePointer(point: Point): Promise<void> {
    const link = await this.link.current;
    link?.connection.movePointer(point.x, point.y);
  }

  /** Closes the connections. D5 */
  async close(): Promise<void> {
    const [link, bare] = [this.link.detach(), this.pointerless.detach()];
    this.closing.abort(new DesktopUnreachable('the connection was closed'));
    this.images = new WeakMap();
    (await link)?.connection.close();
    (await bare)?.close();
  }

  /** Returns a connection that has just answered. */
  private checkedLink(): Promise<Link> {
    return this.retryOnce(async () => {
      const link = await this.link.get();
      await link.connection.barrier();
      return link;
    });
  }

  /** Does as `checkedLink`, for input. D3 */
  private inputLink(): Promise<Link> {
    return this.retryOnce(async () => {
      const link = await this.link.get();
      if (link.hasInput) await link.connection.barrier();
      else await link.device.reset();
      link.hasInput = true;
      return link;
    });
  }

  /** D1: runs the work when no other batch, and no other process, puts input into the desktop. */
  private inTurn<T>(signal: AbortSignal, work: (lost: AbortSignal) => Promise<T>): Promise<T> {
    return this.batches.run(signal, async () => {
      const turn = await this.ports.turn?.(signal);
      if (turn === undefined) return work(signal);
      try {
        if (turn.leftInput !== null) this.resume(turn.leftInput);
        return await work(turn.lost);
      } finally {
        await turn.end(this.leftInput);
      }
    });
  }

  private resume(left: LeftInput): void {
    const { pointer, buttons } = left;
    if (pointer !== null) this.pointer = () => pointer;
    this.buttons = buttons;
    const link = this.link.value;
    if (link === null) return;
    link.device.resume(left);
    this.pointer = () => link.device.pointer;
  }

  /** D2 */
  private async retryOnce<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DesktopUnreachable)) throw error;
      return work();
    }
  }

  private async connectionFor(withCursor: boolean): Promise<RfbConnection> {
    return this.retryOnce(async () => (withCursor ? (await this.link.get()).connection : this.pointerless.get()));
  }

  private captureFrame(withCursor: boolean, bytes: number): Promise<Frame> {
    return this.retryOnce(async () => (withCursor ? (await this.link.get()).connection.capture(bytes) : this.captureWithoutPointer(bytes)));
  }

  private encodeCached(frame: Frame, options: ImageOptions): Promise<EncodedImage> {
    const key = JSON.stringify(options);
    const known = this.images.get(frame);
    if (known?.options === key) return known.image;
    const image = this.ports.encode(frame, options).then((made) => {
      this.imageBytes = made.data.length;
      return made;
    });
    const encoded = { options: key, image };
    this.images.set(frame, encoded);
    image.catch(() => {
      if (this.images.get(frame) === encoded) this.images.delete(frame);
    });
    return image;
  }

  /** Returns a frame without the pointer. The server draws it for clients that did not move it to its place, so this one moves it there. */
  private async captureWithoutPointer(bytes: number): Promise<Frame> {
    const { device } = await this.link.get();
    const bare = await this.pointerless.get();
    const { x, y } = device.pointer;
    await bare.input([pointerEvent(0, x, y)]);
    return bare.capture(bytes);
  }

  private async openLink(): Promise<Link> {
    const connection = await this.dial(false);
    const { width, height } = connection.size;
    const middle = { x: Math.floor(width / 2), y: Math.floor(height / 2) };
    const { x, y } = this.pointer?.() ?? middle;
    const device = new InputDevice(connection, x < width && y < height ? { x, y } : middle, this.buttons);
    this.buttons = 0;
    this.pointer = () => device.pointer;
    return { connection, device, hasInput: false };
  }

  private async dial(hidePointer: boolean): Promise<RfbConnection> {
    const { signal } = this.closing;
    signal.throwIfAborted();
    const timeout = timeoutSignal(DIAL_TIMEOUT_MS);
    const either = AbortSignal.any([signal, timeout]);
    const dialled = this.ports.dial(either);
    // D5
    const cut = (): void => void dialled.then((stream) => stream.destroy()).catch(() => undefined);
    signal.addEventListener('abort', cut, { once: true });
    try {
      return await RfbConnection.open(await raceAbort(dialled, either), { hidePointer });
    } catch (error) {
      cut();
      if (error instanceof DesktopTimeout || error instanceof DesktopUnreachable) throw error;
      if (timeout.aborted && error === timeout.reason) throw new DesktopTimeout('connection', DIAL_TIMEOUT_MS);
      throw new DesktopUnreachable('no connection could be opened');
    } finally {
      signal.removeEventListener('abort', cut);
    }
  }
}
