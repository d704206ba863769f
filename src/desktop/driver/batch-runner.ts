/*
 * Runs the actions of one batch on one desktop, in order, and collects the results.
 *
 * It owns the results and the pictures of one batch. It does not own the checks of the batch (desktop/actions/), single actions
 * (perform-action.ts), or when the batch runs (`DesktopDriver`).
 *
 * Invariants:
 * B1. Actions run in order until one fails. The outcome says how many were completed, since they have taken effect. No action is repeated.
 * B2. Whatever happens, the keys and buttons that the batch has pressed are released at its end, except buttons that are to stay pressed.
 * B3. A picture is not taken before its delay after the last input of this batch is over.
 * B4. The pictures of a batch are bounded in sum, and reserved in the account's memory.
 */

import { toDisplay, type Batch, type BatchStep, type Point, type Region, type Shot, type Size } from '../actions/canonical-actions.ts';
import { pause } from '../../kernel/async/pause.ts';
import type { Frame } from '../rfb/frame.ts';
import { scaled, type EncodedImage, type ImageOptions } from '../screen/encode-image.ts';
import { performAction, type Desk } from './perform-action.ts';

/** B4: the most bytes of all pictures of a batch together. */
const BATCH_IMAGE_BYTES_MAX = 16 * 1_048_576;

export interface StepError {
  code: string;
  message: string;
}

export interface StepResult {
  index: number;
  action: string;
  ok: boolean;
  /** The place of the pointer, as the caller sees the screen. */
  x?: number;
  y?: number;
  screenshot?: EncodedImage;
  error?: StepError;
}

export interface BatchOutcome {
  ok: boolean;
  /** The number of actions that were done. */
  completed: number;
  /** One for each action that was begun. */
  results: StepResult[];
  cursor: Point;
  screenshot: EncodedImage | null;
  /** The reason why there is no picture at the end although one was wanted. */
  screenshotError?: StepError;
  durationMs: number;
}

/** Returns a picture of what the screen shows, with these options for the frame. */
export type CapturePicture = (withCursor: boolean, optionsFor: (frame: Frame) => ImageOptions) => Promise<EncodedImage>;

export interface BatchDesk extends Desk {
  /** Aborts when the caller has gone. The signal for input may abort earlier, which ends the batch with an error. */
  caller: AbortSignal;
  picture: CapturePicture;
  /** Reserves memory for a picture until the batch ends. Returns false if there is none. */
  reserveImage: (bytes: number) => boolean;
}

/**
 * Runs the actions in order until one fails. The failure of an action is in the outcome, since the actions before it have taken effect. Throws
 * the reason of the caller's signal if it aborts.
 */
export async function runBatch(batch: Batch, desk: BatchDesk): Promise<BatchOutcome> {
  const startedAt = performance.now();
  const run = new BatchRun(desk);
  const results: StepResult[] = [];
  try {
    for (const [index, step] of batch.steps.entries()) {
      const result = await run.step(index, step);
      results.push(result);
      if (!result.ok) break;
    }
  } finally {
    // B2. If the connection is lost, the server releases the keys, and the next connection releases the buttons.
    await desk.device.release().catch(() => undefined);
  }
  const completed = results.filter(({ ok }) => ok).length;
  const picture = await run.lastPicture(batch);
  return {
    ok: completed === batch.steps.length && picture.error === undefined,
    completed,
    results,
    cursor: run.cursor(batch.display),
    screenshot: picture.image,
    ...(picture.error && { screenshotError: picture.error }),
    durationMs: Math.round(performance.now() - startedAt),
  };
}

class BatchRun {
  private imageBytes = 0;
  /** B3: input before this time does not belong to this batch. */
  private readonly startedAt = performance.now();

  constructor(private readonly desk: BatchDesk) {}

  async step(index: number, { name, action, shot, display }: BatchStep): Promise<StepResult> {
    const result: StepResult = { index, action: name, ok: true };
    try {
      if (action.kind === 'screenshot') result.screenshot = await this.picture(action.shot, display);
      else if (action.kind === 'zoom') result.screenshot = await this.picture(action.shot, null, action.region);
      else if (action.kind === 'cursor') Object.assign(result, await this.readCursor(display));
      else await performAction(action, this.desk);
      if (shot !== null) result.screenshot = await this.picture(shot, display);
      return result;
    } catch (error) {
      this.desk.caller.throwIfAborted();
      return { index, action: name, ok: false, error: toStepError(error) };
    }
  }

  async lastPicture({ shot, display }: Batch): Promise<{ image: EncodedImage | null; error?: StepError }> {
    if (shot === null) return { image: null };
    try {
      return { image: await this.picture(shot, display) };
    } catch (error) {
      this.desk.caller.throwIfAborted();
      return { image: null, error: toStepError(error) };
    }
  }

  cursor(display: Size): Point {
    const { device, connection } = this.desk;
    return toDisplay(device.pointer, display, connection.size);
  }

  /** Returns the place of the pointer after the server has reported movements that programs have made. */
  private async readCursor(display: Size): Promise<Point> {
    await this.desk.connection.barrier();
    return this.cursor(display);
  }

  /** Takes a picture in the size in which the caller sees the screen; one of a region in the size of the region. */
  private async picture(shot: Shot, display: Size | null, region?: Region): Promise<EncodedImage> {
    const { device, caller: signal } = this.desk;
    const { sentAt } = device;
    if (sentAt >= this.startedAt) await pause(Math.max(0, sentAt + shot.delayMs - performance.now()), signal);
    signal.throwIfAborted();
    const image = await this.desk.picture(shot.cursor, (frame) => ({
      format: shot.format,
      quality: shot.quality,
      size: scaled(region ?? display ?? frame, shot.scale),
      ...(region && { region }),
    }));
    signal.throwIfAborted();
    this.imageBytes += image.data.length;
    if (this.imageBytes > BATCH_IMAGE_BYTES_MAX)
      throw new ImagesTooLarge(`The pictures of a batch may have at most ${BATCH_IMAGE_BYTES_MAX / 1_048_576} MB together.`);
    if (!this.desk.reserveImage(image.data.length))
      throw new ImagesTooLarge('The pictures of this account’s batches take too much memory at the moment.');
    return image;
  }
}

class ImagesTooLarge extends Error {
  readonly code = 'payload_too_large';
}

/** Returns the error for the outcome. Rethrows an unknown error, which is a fault of the service and belongs into its log only. */
function toStepError(error: unknown): StepError {
  const { code, message } = error as { code?: unknown; message: string };
  if (error instanceof RangeError) return { code: 'invalid_action', message };
  if (error instanceof Error && typeof code === 'string' && codes.has(code)) return { code, message };
  throw error;
}

const codes: ReadonlySet<string> = new Set([
  'desktop_unreachable',
  'desktop_timeout',
  'coordinate_out_of_bounds',
  'payload_too_large',
  'human_in_control',
]);
