import { Injectable, type OnModuleInit } from '@nestjs/common';

import { Clock } from '../../../kernel/clock.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { type MasterKeyRotation, MasterKeyRotations } from '../../../crypto/master-key-rotations.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { sagaStep } from '../../../eventsourcing/sagas/saga-step.ts';
import { type Saga, type SagaKey, type SagaPass, Sagas } from '../../../eventsourcing/sagas/saga.ts';
import { keyRotationDecider, keyRotationStream } from './keys.decider.ts';

/** The replicas that do not have the new key yet are checked at this interval, in ms. They announce their key every 5 s. */
const POLL_EVERY_MS = 1_000;

/**
 * Carries out a rotation of the master key: rewraps every data key, waits until every live replica has the new key, and deletes the old
 * one. The rotation is a row of the database, so that it continues after a crash at any step, on any replica.
 */
@Injectable()
export class KeysSaga implements Saga, OnModuleInit {
  readonly name = 'master-key';
  readonly filter = { eventClass: 'core' as const, categories: ['masterKeyRotation'], types: ['MasterKeyRotationBegun'] };
  readonly concurrency = 1;

  constructor(
    private readonly sagas: Sagas,
    private readonly rotations: MasterKeyRotations,
    private readonly aggregates: Aggregates,
    private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  async resync(): Promise<SagaKey[]> {
    return (await this.rotations.unfinishedIds()).map((key) => ({ key, account: null }));
  }

  async reconcile(rotationId: string, pass: SagaPass): Promise<Date | null> {
    const rotation = await this.rotations.find(rotationId);
    if (rotation === null || rotation.finishedAt !== null) return null;
    await this.record(rotation, 'RecordBegin');
    if (rotation.forgottenAt === null) {
      await this.rotations.share(rotation);
      await this.rewrapAll(rotation, pass);
      pass.assertLease();
      if (!(await this.rotations.removeOldKey(rotation))) return new Date(this.clock.now().getTime() + POLL_EVERY_MS);
      sagaStep(this.name, rotationId, 'forgotten');
    }
    await this.record(rotation, 'RecordEnd');
    await this.rotations.finish(rotation);
    sagaStep(this.name, rotationId, 'finished');
    return null;
  }

  /** Rewraps all data keys. If some rows are damaged, it throws after all others are done. */
  private async rewrapAll(rotation: MasterKeyRotation, { assertLease, signal }: SagaPass): Promise<void> {
    const damaged: string[] = [];
    for (const block of await this.rotations.batches()) {
      signal.throwIfAborted();
      assertLease();
      const batch = await this.rotations.rewrap(rotation, block);
      damaged.push(...batch.damaged);
      if (batch.found > 0) sagaStep(this.name, rotation.id, 'rewrapped');
    }
    if (damaged.length > 0)
      throw new Error(
        `the old master key does not open ${damaged.length} data keys, the first one of ${damaged[0]}: their rows are damaged`,
      );
  }

  /** Records the start as an act of the caller, and the end as one of the service. */
  private async record(rotation: MasterKeyRotation, type: 'RecordBegin' | 'RecordEnd'): Promise<void> {
    const { id: rotationId, oldKeyId: fromKeyId, newKeyId: toKeyId, requestedBy } = rotation;
    const context = type === 'RecordBegin' ? requestedBy : systemContext(this.name, requestedBy.accountId);
    const command = { type, rotationId, fromKeyId, toKeyId };
    const { events } = await this.aggregates.execute(keyRotationStream(rotationId), keyRotationDecider, command, { ...context });
    if (events.length > 0) sagaStep(this.name, rotationId, 'recorded');
  }
}
