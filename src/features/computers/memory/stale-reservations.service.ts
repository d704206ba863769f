import { Injectable } from '@nestjs/common';

import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { ComputerMemory } from './computer-memory.service.ts';

/** Releases the memory that a crash left reserved for computers at rest. */
@Injectable()
export class StaleReservations {
  constructor(
    private readonly memory: ComputerMemory,
    private readonly readModels: ReadModels,
    private readonly follower: LogFollower,
  ) {}

  async release(): Promise<void> {
    // The read model must include computers that have started to wake.
    await this.readModels.waitFor(computersProjection.name, this.follower.position);
    await this.memory.releaseStale();
  }
}
