import { Injectable } from '@nestjs/common';

import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { EventWaits } from '../../../eventsourcing/log/event-waits.ts';
import { computerSandbox, SandboxAggregates } from '../../../sandboxes/index.ts';
import type { Computer } from './computer-state.rules.ts';
import { computerDecider, requireOwned, type ComputerCommand } from './computers.decider.ts';
import { computerNotFound } from './computers.errors.ts';
import type { ComputerEvent } from './computers.events.ts';

/** Loads and changes computers. Every use of a computer by a caller starts with `load`. */
@Injectable()
export class Computers extends SandboxAggregates<Computer, ComputerCommand, ComputerEvent> {
  constructor(aggregates: Aggregates, store: EventStore, waits: EventWaits) {
    super(aggregates, store, waits, {
      decider: computerDecider,
      streamOf: computerSandbox,
      subjectOf: computerSandbox,
      requireOwned: requireOwned,
      notFound: computerNotFound,
    });
  }
}
