import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';

import type { StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { Reconcilers, type Reconciler } from '../../sandboxes/services.ts';
import type { ComputerRecord } from './aggregate/computer-records.rules.ts';
import type { Computer } from './aggregate/computer-state.rules.ts';
import { computerEvents, useEvents } from './aggregate/computers.events.ts';
import { COMPUTER_KIND, type ComputerKind } from './containers/computer-kind.ts';
import type { OwnStep } from './containers/next-step.rules.ts';
import { StaleReservations } from './memory/stale-reservations.service.ts';

/** Brings every computer's container to the desired state in its stream, by means of the reconciler. */
@Injectable()
export class ComputersSaga implements Saga, OnModuleInit {
  readonly name: string;
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['computer'],
    types: Object.keys(computerEvents).filter((type) => !Object.hasOwn(useEvents, type)),
  };
  readonly concurrency: number;
  private readonly reconciler: Reconciler<Computer, ComputerRecord, OwnStep>;

  constructor(
    private readonly sagas: Sagas,
    private readonly memory: StaleReservations,
    @Inject(COMPUTER_KIND) kind: ComputerKind,
    reconcilers: Reconcilers,
  ) {
    this.name = kind.saga;
    this.concurrency = reconcilers.passesMax;
    this.reconciler = reconcilers.of(kind);
  }

  onModuleInit(): void {
    this.sagas.register(this);
  }

  /** Returns the stream's name, which is the sandbox id. */
  keyOf({ stream }: StoredEvent): string {
    return stream;
  }

  async resync(maxAgeMs: number): Promise<SagaKey[]> {
    await this.memory.release();
    return this.reconciler.find(maxAgeMs);
  }

  reconcile(sandboxId: string, pass: SagaPass): Promise<Date | null> {
    return this.reconciler.reconcile(sandboxId, pass);
  }
}
