import { Injectable } from '@nestjs/common';

import { computerSandbox } from '../../../sandboxes/index.ts';
import { Activity } from '../../../sandboxes/services.ts';
import { Computers } from '../aggregate/computers.service.ts';
import { DesktopDialler } from '../live/desktop-dialler.service.ts';
import { DesktopPool } from '../live/desktop-pool.service.ts';
import { LiveComputers } from '../live/live-computers.service.ts';
import { type ComputerAvailability, type Dial, ViewedDesktops, type ViewNeed } from './viewed-desktops.ts';

/**
 * A computer that is watched but not used sleeps after four times its idle time: it counts as used for this many idle times, and then the
 * idle time starts.
 */
const IDLE_TIMES_SEEN = 3;

/** The desktops of computers in their containers. */
@Injectable()
export class LiveDesktops extends ViewedDesktops {
  constructor(
    private readonly computers: Computers,
    private readonly live: LiveComputers,
    private readonly dialler: DesktopDialler,
    private readonly pool: DesktopPool,
    private readonly activity: Activity,
  ) {
    super();
  }

  async requireOwned(computerId: string, accountId: string): Promise<void> {
    await this.computers.load(computerId, accountId);
  }

  whileAwake<T>({ wake = true, ...need }: ViewNeed, work: (dial: Dial) => Promise<T>): Promise<T> {
    return this.live.whileAwake({ ...need, wake, trigger: 'viewer' }, (computer) => work((signal) => this.dialler.dial(computer, signal)));
  }

  async keepAwake(computerId: string): Promise<void> {
    const { state } = await this.computers.find(computerId);
    const seconds = state?.settings.idle_timeout_seconds ?? 0;
    // A computer without an idle time never sleeps by itself.
    if (seconds > 0) await this.activity.keepAwake(computerSandbox(computerId), new Date(Date.now() + IDLE_TIMES_SEEN * seconds * 1_000));
  }

  async stopKeepingAwake(computerId: string): Promise<void> {
    await this.activity.keepAwakeOnly(computerSandbox(computerId), null);
  }

  async availabilityOf(computerId: string): Promise<ComputerAvailability> {
    const { state } = await this.computers.find(computerId);
    if (state === null) return 'deleted';
    switch (state.status) {
      case 'asleep':
      case 'error':
        return 'asleep';
      case 'deleting':
      case 'deleted':
        return 'deleted';
      default:
        return 'usable';
    }
  }

  movePointer(computerId: string, x: number, y: number): void {
    this.pool.movePointer(computerId, { x, y });
  }
}
