import { Injectable } from '@nestjs/common';

import { Clock } from '../../kernel/clock.ts';
import { Intervals } from '../../kernel/config/intervals.ts';
import { Database } from '../../postgres/database/database.ts';
import { LogFollower } from '../log/log-follower.ts';
import type { Saga } from './saga.ts';
import { SagaRunner, type SagaTools } from './saga-runner.ts';
import { UnprojectedEvents } from './unprojected-events.ts';

/** Makes the runners of sagas. */
@Injectable()
export class SagaRunners {
  private readonly tools: SagaTools;

  constructor(database: Database, clock: Clock, unseen: UnprojectedEvents, follower: LogFollower, intervals: Intervals) {
    this.tools = { database, clock, unprojected: unseen, follower, intervals };
  }

  of(saga: Saga): SagaRunner {
    return new SagaRunner(saga, this.tools);
  }
}
