import { Injectable, type OnModuleInit } from '@nestjs/common';

import { systemContext } from '../../../kernel/context/command-context.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { type Saga, type SagaKey, type SagaPass, Sagas } from '../../../eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../../eventsourcing/sagas/saga-step.ts';
import { ViewedDesktops } from './viewed-desktops.ts';
import { ViewerConnections } from './viewer-connections.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { ViewerSessions } from './viewer-sessions.service.ts';
import type { Viewers } from './viewers.decider.ts';

/**
 * Ends sessions that expire, and all sessions of a computer that sleeps, has failed, or is deleted. Records the end of connections whose
 * process was killed.
 */
@Injectable()
export class ViewersSaga implements Saga, OnModuleInit {
  readonly name = 'viewers';
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['viewer', 'computer'],
    types: [
      'ViewerCreated',
      'ViewerConnected',
      'ViewerClosed',
      'ComputerSlept',
      'ComputerFailed',
      'ComputerDeletionRequested',
      'ComputerDeleted',
    ],
  };
  readonly concurrency = 8;

  constructor(
    private readonly sagas: Sagas,
    private readonly records: ViewerRecords,
    private readonly sessions: ViewerSessions,
    private readonly connections: ViewerConnections,
    private readonly desktops: ViewedDesktops,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  async resync(): Promise<SagaKey[]> {
    return (await this.connections.abandoned()).map(({ computerId, accountId }) => ({ key: computerId, account: accountId }));
  }

  async reconcile(computerId: string, pass: SagaPass): Promise<Date | null> {
    const viewers = await this.records.load(computerId);
    if (viewers !== null) {
      pass.setAccount(viewers.accountId);
      await this.endSessions(viewers, pass);
    }
    await this.endConnections(computerId, pass);
    const left = (await this.records.load(computerId))?.sessions ?? [];
    return left.length === 0 ? null : new Date(Math.min(...left.map(({ expiresAt }) => Date.parse(expiresAt))));
  }

  private async endSessions({ computerId, accountId, sessions }: Viewers, { assertLease }: SagaPass): Promise<void> {
    if (sessions.length === 0) return;
    const context = systemContext(this.name, accountId);
    const fate = await this.desktops.availabilityOf(computerId);
    const now = Date.now();
    const expired = sessions.filter(({ expiresAt }) => Date.parse(expiresAt) <= now).map(({ id }) => id);
    assertLease();
    if (fate !== 'usable') await this.sessions.end(computerId, null, fate, context);
    else if (expired.length > 0) await this.sessions.end(computerId, expired, 'expired', context);
    else return;
    sagaStep(this.name, computerId, 'ended');
  }

  /** Records the ends of connections whose owner is dead, and removes the rows of those whose ends are recorded. */
  private async endConnections(computerId: string, { assertLease }: SagaPass): Promise<void> {
    const viewers = await this.records.load(computerId);
    const rows = await this.connections.ofComputer(computerId);
    const open = viewers?.sessions.flatMap(({ connections }) => connections) ?? [];
    const context = systemContext(this.name, viewers?.accountId ?? null);
    for (const connectionId of open) {
      const row = rows.get(connectionId);
      if (row?.isDead === false) continue;
      assertLease();
      await this.records.execute(computerId, { type: 'DisconnectViewer', connectionId, seconds: row?.seconds ?? 0 }, context);
    }
    const gone = [...rows.values()].filter(({ isDead }) => isDead).map(({ connectionId }) => connectionId);
    if (gone.length > 0) await this.connections.remove(gone);
  }
}
