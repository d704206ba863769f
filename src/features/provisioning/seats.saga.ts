import { Injectable, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { idOf, WrongExpectedRevision, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { sagaStep } from '../../eventsourcing/sagas/saga-step.ts';
import { Sagas, type Saga, type SagaKey } from '../../eventsourcing/sagas/saga.ts';
import { Activity } from '../../sandboxes/services.ts';
import { SeatHolders } from './seat-holders.service.ts';
import { holderOf } from './seats.projection.ts';
import { ListUnusedSeats } from './seats.queries.ts';

/** The longest time between taking a seat and creating its agent or computer. */
const CREATION_TIMEOUT_MS = 60_000;
const TAKING_EVENTS: readonly string[] = ['SeatTaken', 'ComputerSeatTaken'];

/**
 * Releases the seats of deleted agents and computers, and seats whose holder was never created because the process that took the seat died.
 * A key is the sandbox id; for a taken seat, the account's id and the time follow.
 */
@Injectable()
export class SeatsSaga implements Saga, OnModuleInit {
  readonly name = 'seats';
  readonly filter = {
    eventClass: 'core' as const,
    categories: ['account', 'agent', 'computer'],
    types: [...TAKING_EVENTS, 'AgentDeleted', 'ComputerDeleted'],
  };
  readonly concurrency = 8;

  constructor(
    private readonly sagas: Sagas,
    private readonly holders: SeatHolders,
    private readonly queries: QueryBus,
    private readonly activity: Activity,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    const sandboxId = holderOf(event);
    return TAKING_EVENTS.includes(event.type) ? seatKey(sandboxId, idOf(event.stream), event.at) : sandboxId;
  }

  async resync(): Promise<SagaKey[]> {
    const seats = await this.queries.execute(new ListUnusedSeats());
    return seats.map(({ sandboxId, accountId, takenAt }) => ({
      key: seatKey(sandboxId, accountId, takenAt.toISOString()),
      account: accountId,
    }));
  }

  async reconcile(key: string): Promise<Date | null> {
    const [sandboxId = '', accountId, takenAt] = key.split(' ');
    const holder = await this.holders.find(sandboxId);
    if (holder?.isDeleted === true) {
      await this.activity.delete(sandboxId);
      await this.release(sandboxId, holder.accountId);
    }
    if (holder !== null || accountId === undefined || takenAt === undefined) return null;
    const due = new Date(Date.parse(takenAt) + CREATION_TIMEOUT_MS);
    if (due.getTime() > Date.now()) return due;
    // The stream is closed first, so that a late request can't create an agent or computer without a seat.
    if (await this.close(sandboxId)) await this.release(sandboxId, accountId);
    return null;
  }

  /** Returns false if the agent or computer was created after all. */
  private async close(sandboxId: string): Promise<boolean> {
    try {
      await this.holders.close(sandboxId);
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return false;
      throw error;
    }
    sagaStep(this.name, sandboxId, 'closed');
    return true;
  }

  private async release(sandboxId: string, accountId: string): Promise<void> {
    await this.holders.release(sandboxId, accountId);
    sagaStep(this.name, sandboxId, 'released');
  }
}

export function seatKey(sandboxId: string, accountId: string, takenAt: string): string {
  return `${sandboxId} ${accountId} ${takenAt}`;
}
