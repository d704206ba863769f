import { Injectable } from '@nestjs/common';

import type { Position } from '../../../eventsourcing/event-store/event-store.ts';

/** The interface by which other modules learn which viewer is in control. The viewers implement it. */
export interface ControlWatch {
  /** See `Aggregates.load` for `upTo`. */
  inControl(computerId: string, upTo?: Position): Promise<boolean>;
  /** Resolves with true once a person is in control; with false if the signal aborts before that, or the service stops. */
  untilInControl(computerId: string, signal: AbortSignal): Promise<boolean>;
}

/** Determines whether a person has exclusive control of a computer through a viewer. */
@Injectable()
export class ViewerControl implements ControlWatch {
  private watch: ControlWatch | null = null;

  /** Registers the viewers' implementation. Before that, nobody is in control. */
  register(watch: ControlWatch): void {
    this.watch = watch;
  }

  /**
   * Returns whether a person with exclusive control is connected, so that nobody else may act on the computer. See `Aggregates.load` for
   * `upTo`.
   */
  async inControl(computerId: string, upTo?: Position): Promise<boolean> {
    return (await this.watch?.inControl(computerId, upTo)) ?? false;
  }

  /** Waits for a person with exclusive control. See `ControlWatch`. */
  async untilInControl(computerId: string, signal: AbortSignal): Promise<boolean> {
    return (await this.watch?.untilInControl(computerId, signal)) ?? false;
  }
}
