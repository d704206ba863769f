import { Injectable } from '@nestjs/common';

import { sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { ImageFormat, Region, Size } from '../../../desktop/actions/canonical-actions.ts';
import type { DesktopDriver } from '../../../desktop/driver/desktop-driver.ts';
import { scaled, type EncodedImage } from '../../../desktop/screen/encode-image.ts';
import { ActionRecorder } from './action-recorder.service.ts';
import type { ComputerCall } from './computer-call.ts';
import { DesktopPool } from './desktop-pool.service.ts';
import { LiveComputers } from './live-computers.service.ts';

/** The pictures that one process takes at once; an account may have a quarter of them. */
const SCREENSHOTS = sharesOf(128);
/** The longest time that a picture waits for its turn, in ms. */
const TURN_TIMEOUT_MS = 10_000;

export interface ScreenshotOptions {
  format: ImageFormat;
  quality: number;
  scale: number;
  /** The requested part of the screen; null for the whole screen. */
  region: Region | null;
  cursor: boolean;
}

export interface Screenshot {
  image: EncodedImage;
  /** The size of the whole screen. */
  screen: Size;
  takenAt: Date;
}

/** Takes pictures of the screens of computers. It wakes the computer first. */
@Injectable()
export class ComputerScreens {
  private readonly slots = new FairLimiter(SCREENSHOTS);

  constructor(
    private readonly computers: LiveComputers,
    private readonly desktops: DesktopPool,
    private readonly recorder: ActionRecorder,
  ) {}

  /**
   * Returns a picture. Throws what waking the computer throws, `coordinate_out_of_bounds`, `busy`, `desktop_unreachable`, `desktop_timeout`,
   * and the signal's reason.
   */
  capture(call: ComputerCall, options: ScreenshotOptions): Promise<Screenshot> {
    const { computerId, accountId, signal } = call;
    return this.computers.whileAwake({ ...call, trigger: 'screenshot' }, (computer, woken) => {
      if (woken) call.onWoken();
      const patience = timeoutSignal(TURN_TIMEOUT_MS);
      const inTurn = () =>
        this.desktops.use(computer, signal, async ({ driver, signal: either }) => this.captureFrom(call, driver, options, either));
      return this.slots
        .run({ account: accountId, agent: computerId }, AbortSignal.any([signal, patience]), inTurn)
        .catch((error: unknown) => {
          if (error !== patience.reason) throw error;
          throw new ProblemError('busy', 'Too many pictures for this account are taken at once.', { retryAfterSeconds: 1 });
        });
    });
  }

  private async captureFrom(
    call: ComputerCall,
    driver: DesktopDriver,
    { format, quality, scale, region, cursor }: ScreenshotOptions,
    signal: AbortSignal,
  ): Promise<Screenshot> {
    let screen: Size = { width: 0, height: 0 };
    const image = await driver.picture(
      cursor,
      (frame) => {
        screen = { width: frame.width, height: frame.height };
        return { format, quality, size: scaled(region ?? screen, scale), ...(region && { region }) };
      },
      signal,
    );
    this.recorder.countScreenshot(call);
    return { image, screen, takenAt: new Date() };
  }
}
