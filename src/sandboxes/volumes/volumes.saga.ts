import { Injectable, type OnModuleInit } from '@nestjs/common';

import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../eventsourcing/sagas/saga.ts';
import { ContainerKinds } from '../reconciliation/container-kinds.ts';
import { VolumeMeter } from './volume-meter.service.ts';

/** The only key, so that one replica measures for all. */
const ALL = 'all';
const RETRY_MS = 30_000;
/** A pause is at least this many times as long as the work before it. */
const REST_FACTOR = 4;

/** Stops sandboxes whose volumes hold more than they may. */
@Injectable()
export class VolumesSaga implements Saga, OnModuleInit {
  readonly name = 'volumes';
  /** No event tells that a volume has grown. */
  readonly filter = { eventClass: 'core' as const, categories: ['agent'], types: ['AgentDeleted'] };
  readonly concurrency = 1;
  private hasBegun = false;

  constructor(
    private readonly sagas: Sagas,
    private readonly meter: VolumeMeter,
    private readonly kinds: ContainerKinds,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(): null {
    return null;
  }

  /** Begins the series of passes; each one after it is begun by the deadline that the one before returned. */
  async resync(): Promise<SagaKey[]> {
    return this.hasBegun || !this.meter.isLimited ? [] : [{ key: ALL, account: null }];
  }

  async reconcile(_key: string, { assertLease, withoutSlot }: SagaPass): Promise<Date | null> {
    this.hasBegun = true;
    if (!this.meter.isLimited) return null;
    const begun = performance.now();
    const full = await withoutSlot(() => this.meter.findFull());
    for (const [sandboxId, reason] of full) {
      const records = this.kinds.of(sandboxId)?.records;
      const seen = await records?.load(sandboxId);
      if (records === undefined || seen == null) continue;
      assertLease();
      await records.recordFull(sandboxId, seen.state.accountId, reason, this.name);
      sagaStep(this.name, sandboxId, 'full');
    }
    return new Date(Date.now() + Math.max(RETRY_MS, REST_FACTOR * (performance.now() - begun)));
  }
}
