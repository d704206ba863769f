import type { Duplex } from 'node:stream';

import type { Batch, Point } from '../actions/canonical-actions.ts';
import { unlessAborted } from '../../platform/async/unless-aborted.ts';
import { DesktopTimeout, DesktopUnreachable } from '../rfb/desktop-errors.ts';
import type { Frame, ScreenSize } from '../rfb/frame.ts';
import { pointerEvent } from '../rfb/client-messages.ts';
import { RfbConnection } from '../rfb/rfb-connection.ts';
import type { EncodedImage, ImageOptions } from '../screen/encode-image.ts';
import { BatchQueue } from './batch-queue.ts';
import { runBatch, type BatchOutcome } from './batch-runner.ts';
import { InputDevice } from './input-device.ts';
import { Reopened } from './reopened.ts';

/** The longest time until there is a stream to the desktop, ms. */
const DIAL_TIMEOUT_MS = 10_000;
/** A picture that nobody asked for again takes no memory after this time, ms. */
const IMAGE_KEPT_MS = 10_000;

export interface DesktopPorts {
  /** Opens a stream to the desktop's RFB server. */
  dial(): Promise<Duplex>;
  encode(frame: Frame, options: ImageOptions): Promise<EncodedImage>;
}

interface Link {
  connection: RfbConnection;
  device: InputDevice;
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
  /** The place of the pointer on the connection before. */
  private pointer: (() => Point) | null = null;
  private latest: { frame: Frame; options: string; image: Promise<EncodedImage> } | null = null;
  private latestTimer: NodeJS.Timeout | undefined;

  constructor(private readonly ports: DesktopPorts) {}

  /** Returns the size of the screen, for which a batch is normalised. */
  async size(): Promise<ScreenSize> {
    const { connection } = await this.checkedLink();
    return connection.size;
  }

  /**
   * Runs a batch when those before it are done. Throws `DesktopBusy`, `DesktopUnreachable` or `DesktopTimeout` before anything was done, and
   * the signal's reason when it aborts; what fails later is in the outcome.
   */
  async run(batch: Batch, signal: AbortSignal): Promise<BatchOutcome> {
    return this.batches.run(signal, async () => {
      const { connection, device } = await unlessAborted(this.checkedLink(), signal);
      const capture = (withCursor: boolean) => unlessAborted(this.capture(withCursor), signal);
      const encode = (frame: Frame, options: ImageOptions) => unlessAborted(this.encode(frame, options), signal);
      return runBatch(batch, { connection, device, signal, capture, encode });
    });
  }

  /** Returns what the screen shows, with or without the pointer. A lost connection is opened once more. */
  async capture(withCursor: boolean): Promise<Frame> {
    return this.again(async () => (withCursor ? (await this.link.get()).connection.capture() : this.captureBare()));
  }

  /** Returns the picture of a frame. The latest one is kept, so a screen that does not change is encoded once. */
  encode(frame: Frame, options: ImageOptions): Promise<EncodedImage> {
    const key = JSON.stringify(options);
    if (this.latest?.frame === frame && this.latest.options === key) return this.latest.image;
    const image = this.ports.encode(frame, options);
    const latest = { frame, options: key, image };
    const forget = () => {
      if (this.latest === latest) this.latest = null;
    };
    this.latest = latest;
    image.catch(forget);
    clearTimeout(this.latestTimer);
    this.latestTimer = setTimeout(forget, IMAGE_KEPT_MS).unref();
    return image;
  }

  /** Tells where a person has put the pointer, which the server does not tell its other clients. */
  async movePointer(point: Point): Promise<void> {
    const link = await this.link.current;
    link?.connection.movePointer(point.x, point.y);
  }

  /** Ends the connections. The next call opens them anew. */
  async close(): Promise<void> {
    const [link, bare] = [this.link.forget(), this.bare.forget()];
    clearTimeout(this.latestTimer);
    this.latest = null;
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

  private async again<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DesktopUnreachable)) throw error;
      return work();
    }
  }

  /** Returns a frame of the connection on which the pointer is not drawn. The server draws it all the same for those who did not move it there. */
  private async captureBare(): Promise<Frame> {
    const { device } = await this.link.get();
    const bare = await this.bare.get();
    const { x, y } = device.pointer;
    await bare.input([pointerEvent(0, x, y)]);
    return bare.capture();
  }

  private async openLink(): Promise<Link> {
    const connection = await this.dial(false);
    const { width, height } = connection.size;
    const middle = { x: Math.floor(width / 2), y: Math.floor(height / 2) };
    const { x, y } = this.pointer?.() ?? middle;
    const device = new InputDevice(connection, x < width && y < height ? { x, y } : middle);
    this.pointer = () => device.pointer;
    await device.reset();
    return { connection, device };
  }

  private async dial(hidePointer: boolean): Promise<RfbConnection> {
    const dialled = this.ports.dial();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new DesktopTimeout('connection', DIAL_TIMEOUT_MS)), DIAL_TIMEOUT_MS);
    });
    try {
      return await RfbConnection.open(await Promise.race([dialled, late]), { hidePointer });
    } catch (error) {
      // A stream that comes later is of no use.
      void dialled.then((stream) => stream.destroy()).catch(() => undefined);
      if (error instanceof DesktopTimeout || error instanceof DesktopUnreachable) throw error;
      throw new DesktopUnreachable('no connection could be opened');
    } finally {
      clearTimeout(timer);
    }
  }
}
