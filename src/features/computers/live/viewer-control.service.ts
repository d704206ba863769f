import { Injectable } from '@nestjs/common';

import type { Position } from '../../../eventsourcing/event-store/event-store.ts';

/** The part of viewers that knows who is in control. */
export interface ControlWatch {
  /** See `Aggregates.load` for `upTo`. */
  inControl(computerId: string, upTo?: Position): Promise<boolean>;
  /** Resolves with true as soon as somebody is in control; with false if the signal aborts before, or nobody can tell any more. */
  untilInControl(computerId: string, signal: AbortSignal): Promise<boolean>;
}

/** Knows whether a person controls a computer alone, by a viewer. */
@Injectable()
export class ViewerControl implements ControlWatch {
  private watch: ControlWatch | null = null;

  /** Lets viewers answer; until they do, nobody is in control. */
  register(watch: ControlWatch): void {
    this.watch = watch;
  }

  /** Returns whether a person is connected who controls the computer alone, so that nobody else acts on it. See `Aggregates.load` for `upTo`. */
  async inControl(computerId: string, upTo?: Position): Promise<boolean> {
    return (await this.watch?.inControl(computerId, upTo)) ?? false;
  }

  /** Waits for a person who controls the computer alone. See `ControlWatch`. */
  async untilInControl(computerId: string, signal: AbortSignal): Promise<boolean> {
    return (await this.watch?.untilInControl(computerId, signal)) ?? false;
  }
}
