import { Injectable } from '@nestjs/common';

import { Computers } from '../aggregate/computers.service.ts';
import { DesktopDialler } from '../live/desktop-dialler.service.ts';
import { DesktopPool } from '../live/desktop-pool.service.ts';
import { LiveComputers } from '../live/live-computers.service.ts';
import { type ComputerFate, type Dial, ViewedDesktops, type ViewNeed } from './viewed-desktops.ts';

/** The desktops of computers in their containers. */
@Injectable()
export class LiveDesktops extends ViewedDesktops {
  constructor(
    private readonly computers: Computers,
    private readonly live: LiveComputers,
    private readonly dialler: DesktopDialler,
    private readonly pool: DesktopPool,
  ) {
    super();
  }

  async requireOwned(computerId: string, accountId: string): Promise<void> {
    await this.computers.load(computerId, accountId);
  }

  whileAwake<T>({ wake = true, ...need }: ViewNeed, work: (dial: Dial) => Promise<T>): Promise<T> {
    return this.live.whileAwake({ ...need, wake, trigger: 'viewer' }, (computer) => work((signal) => this.dialler.dial(computer, signal)));
  }

  async fateOf(computerId: string): Promise<ComputerFate> {
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
