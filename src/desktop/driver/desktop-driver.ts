import type { Duplex } from 'node:stream';

import type { Batch, Point } from '../actions/canonical-actions.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { unlessAborted } from '../../kernel/async/unless-aborted.ts';
import { DesktopTimeout, DesktopUnreachable, ScreenGrew } from '../rfb/desktop-errors.ts';
import { frameBytes, type Frame, type ScreenSize } from '../rfb/frame.ts';
import { pointerEvent } from '../rfb/client-messages.ts';
import { RfbConnection } from '../rfb/rfb-connection.ts';
import type { EncodedImage, ImageOptions } from '../screen/encode-image.ts';
import { BatchQueue } from './batch-queue.ts';
import { runBatch, type BatchOutcome, type TakePicture } from './batch-runner.ts';
import { InputDevice } from './input-device.ts';
import { Reopened } from './reopened.ts';
import type { LeftInput, Turn } from './turn.ts';

/** The longest time until there is a stream to the desktop, ms. */
const DIAL_TIMEOUT_MS = 10_000;
/** The most times that a picture is begun because the screen has become larger meanwhile. */
const GROWTHS_MAX = 3;

export interface DesktopPorts {
  /** Opens a stream to the desktop's RFB server. */
  dial(signal: AbortSignal): Promise<Duplex>;
  encode(frame: Frame, options: ImageOptions): Promise<EncodedImage>;
  /** Resolves when there is room in memory for a frame, with a function that ends its use. */
  reserve(bytes: number, signal: AbortSignal): Promise<() => void>;
  /** The place of the pointer, as far as it is known; by default the middle, where a desktop has it at first. */
  pointer?: Point | null;
  /** Waits until nobody else puts input into the desktop. By default nobody else ever does. Throws the signal's reason. */
  turn?(signal: AbortSignal): Promise<Turn>;
}

/** The wishes for a batch that waits for its turn. */
export interface BatchOrder {
  /** Returns the batch for a screen of this size. What it throws, `run` throws, and nothing was done. */
  batchFor: (size: ScreenSize) => Promise<Batch>;
  /** Takes room in memory for a picture, until whoever ordered the batch has passed it on. Returns false if there is none. */
  hold: (bytes: number) => boolean;
  /** Ends the input, with its reason as the error of the action that it interrupts. */
  stop?: AbortSignal;
}

interface Link {
  connection: RfbConnection;
  device: InputDevice;
  /** True once it has had input: pictures alone move no pointer. */
  hasInput: boolean;
}

interface Encoded {
  options: string;
  image: Promise<EncodedImage>;
}

/**
 * Drives one desktop over one connection, which is opened when it is first needed, and once more when it was lost. Batches run one after the
 * other; pictures are taken beside them.
 */
export class DesktopDriver {
  private readonly link = new Reopened<Link>(
    () => this.openLink(),
    ({ connection }) => connection.isOpen,
  );
  /** A second connection, on which the pointer is not drawn; opened when such a picture is first wanted. */
  private readonly bare = new Reopened<RfbConnection>(
    () => this.dial(true),
    ({ isOpen }) => isOpen,
  );
  private readonly batches = new BatchQueue();
  /** Ends what is being opened when the driver is closed. */
  private readonly closing = new AbortController();
  /** The place of the pointer on the connection before. */
  private pointer: (() => Point) | null = null;
  /** The bits of the buttons that somebody else has left down, until there is a connection. */
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
  run({ batchFor, hold, stop }: BatchOrder, signal: AbortSignal): Promise<BatchOutcome> {
    return this.inTurn(signal, async (lost) => {
      const { connection, device } = await unlessAborted(this.inputLink(), signal);
      const batch = await batchFor(connection.size);
      const picture: TakePicture = (withCursor, optionsFor) => this.picture(withCursor, optionsFor, signal);
      const either = AbortSignal.any([signal, lost, ...(stop === undefined ? [] : [stop])]);
      return runBatch(batch, { connection, device, signal: either, caller: signal, picture, hold });
    });
  }

  /**
   * Returns a picture of what the screen shows, with or without the pointer. A lost connection is opened once more. The latest picture of a
   * frame is kept, so a screen that does not change is encoded once. Throws what `optionsFor` throws.
   */
  async picture(withCursor: boolean, optionsFor: (frame: Frame) => ImageOptions, signal: AbortSignal): Promise<EncodedImage> {
    for (let growths = 0; growths < GROWTHS_MAX; growths += 1) {
      const { size } = await unlessAborted(this.connectionFor(withCursor), signal);
      const bytes = frameBytes(size);
      const release = await this.ports.reserve(bytes, signal);
      // A frame is shared, and awaited to its end when this caller gives up, so its room is used until then.
      const taken = this.captured(withCursor, bytes)
        .then((frame) => this.encoded(frame, optionsFor(frame)))
        .finally(release);
      taken.catch(() => undefined);
      try {
        return await unlessAborted(taken, signal);
      } catch (error) {
        if (!(error instanceof ScreenGrew)) throw error;
      }
    }
    throw new DesktopUnreachable('its screen becomes larger all the time');
  }

  /** The bytes in memory that are kept to be used again. */
  get keptBytes(): number {
    const frames = (this.link.value?.connection.keptBytes ?? 0) + (this.bare.value?.keptBytes ?? 0);
    return frames === 0 ? 0 : frames + this.imageBytes;
  }

  /** Ends the use of what is kept, but not the connections. */
  forgetFrames(): void {
    this.link.value?.connection.forgetFrame();
    this.bare.value?.forgetFrame();
    this.images = new WeakMap();
    this.imageBytes = 0;
  }

  /** Resolves with true once the desktop has answered. Throws `DesktopUnreachable` and `DesktopTimeout`. */
  async answers(signal: AbortSignal): Promise<true> {
    await unlessAborted(this.checkedLink(), signal);
    return true;
  }

  /** Releases what somebody may have left held down, when the batches before it are done. Throws what `run` throws. */
  releaseInput(signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      const { device } = await unlessAborted(this.inputLink(), signal);
      await unlessAborted(device.releaseAll(), signal);
    });
  }

  /** The place of the pointer, as it is known; null if it is not. */
  get place(): Point | null {
    return this.pointer?.() ?? null;
  }

  /** True if a button is down that is to stay down after the batch which pressed it. */
  get holdsButton(): boolean {
    return this.left.buttons !== 0;
  }

  private get left(): LeftInput {
    return { pointer: this.place, buttons: this.link.value?.device.keptButtons ?? this.buttons };
  }

  /** Tells where a person has put the pointer, which the server does not tell its other clients. */
  async movePointer(point: Point): Promise<void> {
    const link = await this.link.current;
    link?.connection.movePointer(point.x, point.y);
  }

  /** Ends the connections. Nothing is opened any more. */
  async close(): Promise<void> {
    const [link, bare] = [this.link.forget(), this.bare.forget()];
    this.closing.abort(new DesktopUnreachable('the connection was closed'));
    this.images = new WeakMap();
    (await link)?.connection.close();
    (await bare)?.close();
  }

  /** Returns a connection that has just answered. */
  private checkedLink(): Promise<Link> {
    return this.again(async () => {
      const link = await this.link.get();
      await link.connection.barrier();
      return link;
    });
  }

  /** Does as `checkedLink`, for input. The first input releases the buttons that an earlier connection has left down. */
  private inputLink(): Promise<Link> {
    return this.again(async () => {
      const link = await this.link.get();
      if (link.hasInput) await link.connection.barrier();
      else await link.device.reset();
      link.hasInput = true;
      return link;
    });
  }

  /** Runs the work when no other process, and no other batch of this one, puts input into the desktop. */
  private inTurn<T>(signal: AbortSignal, work: (lost: AbortSignal) => Promise<T>): Promise<T> {
    return this.batches.run(signal, async () => {
      const turn = await this.ports.turn?.(signal);
      if (turn === undefined) return work(signal);
      try {
        if (turn.left !== null) this.resume(turn.left);
        return await work(turn.lost);
      } finally {
        await turn.end(this.left);
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

  private async again<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DesktopUnreachable)) throw error;
      return work();
    }
  }

  private async connectionFor(withCursor: boolean): Promise<RfbConnection> {
    return this.again(async () => (withCursor ? (await this.link.get()).connection : this.bare.get()));
  }

  private captured(withCursor: boolean, bytes: number): Promise<Frame> {
    return this.again(async () => (withCursor ? (await this.link.get()).connection.capture(bytes) : this.captureBare(bytes)));
  }

  private encoded(frame: Frame, options: ImageOptions): Promise<EncodedImage> {
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

  /** Returns a frame of the connection on which the pointer is not drawn. The server draws it all the same for those who did not move it there. */
  private async captureBare(bytes: number): Promise<Frame> {
    const { device } = await this.link.get();
    const bare = await this.bare.get();
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
    const patience = timeoutSignal(DIAL_TIMEOUT_MS);
    const either = AbortSignal.any([signal, patience]);
    const dialled = this.ports.dial(either);
    // A stream that comes later is of no use.
    const cut = (): void => void dialled.then((stream) => stream.destroy()).catch(() => undefined);
    signal.addEventListener('abort', cut, { once: true });
    try {
      return await RfbConnection.open(await unlessAborted(dialled, either), { hidePointer });
    } catch (error) {
      cut();
      if (error instanceof DesktopTimeout || error instanceof DesktopUnreachable) throw error;
      if (patience.aborted && error === patience.reason) throw new DesktopTimeout('connection', DIAL_TIMEOUT_MS);
      throw new DesktopUnreachable('no connection could be opened');
    } finally {
      signal.removeEventListener('abort', cut);
    }
  }
}
