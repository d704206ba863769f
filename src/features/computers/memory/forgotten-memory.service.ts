import { Injectable } from '@nestjs/common';

import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { ComputerMemory } from './computer-memory.service.ts';

/** Gives back the memory of computers at rest that a crash left behind. */
@Injectable()
export class ForgottenMemory {
  constructor(
    private readonly memory: ComputerMemory,
    private readonly readModels: ReadModels,
    private readonly follower: LogFollower,
  ) {}

  async release(): Promise<void> {
    // A computer that has begun to wake must be seen as one.
    await this.readModels.waitFor(computersProjection.name, this.follower.position);
    await this.memory.releaseForgotten();
  }
}
