import { Injectable, type OnModuleInit } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { ReleaseSeat } from '../accounts/index.ts';
import { Agents } from '../agents/services.ts';
import { Activity } from '../sandboxes/services.ts';
import { idOf, WrongExpectedRevision, type StoredEvent } from '../platform/event-store/event-store.ts';
import { systemContext } from '../platform/context/command-context.ts';
import { sagaStep } from '../platform/sagas/saga-step.ts';
import { Sagas, type Saga, type SagaKey } from '../platform/sagas/saga.ts';
import { agentIdOf } from './seats.projection.ts';
import { ListUnusedSeats } from './seats.queries.ts';

/** The longest time between taking a seat and making its agent. */
const MADE_WITHIN_MS = 60_000;

/**
 * Releases the seats of deleted agents, and seats whose agent was never made because the process that took the seat died. A key is the
 * agent's id; for a taken seat, the account's id and the time follow.
 */
@Injectable()
export class SeatsSaga implements Saga, OnModuleInit {
  readonly name = 'seats';
  readonly filter = { eventClass: 'core' as const, categories: ['account', 'agent'], types: ['SeatTaken', 'AgentDeleted'] };
  readonly concurrency = 8;

  constructor(
    private readonly sagas: Sagas,
    private readonly agents: Agents,
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly activity: Activity,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    const agentId = agentIdOf(event);
    return event.type === 'SeatTaken' ? seatKey(agentId, idOf(event.stream), event.at) : agentId;
  }

  async resync(): Promise<SagaKey[]> {
    const seats = await this.queries.execute(new ListUnusedSeats());
    return seats.map(({ agentId, accountId, takenAt }) => ({
      key: seatKey(agentId, accountId, takenAt.toISOString()),
      account: accountId,
    }));
  }

  async reconcile(key: string): Promise<Date | null> {
    const [agentId = '', accountId, takenAt] = key.split(' ');
    const { state } = await this.agents.find(agentId);
    if (state?.status === 'deleted') {
      await this.activity.forget(agentId);
      await this.release(agentId, state.accountId);
    }
    if (state !== null || accountId === undefined || takenAt === undefined) return null;
    const due = new Date(Date.parse(takenAt) + MADE_WITHIN_MS);
    if (due.getTime() > Date.now()) return due;
    // The stream is closed first, so that a late request can't make an agent without a seat.
    if (await this.close(agentId)) await this.release(agentId, accountId);
    return null;
  }

  /** Returns false if the agent was made after all. */
  private async close(agentId: string): Promise<boolean> {
    try {
      await this.agents.close(agentId, 'no_stream');
    } catch (error) {
      if (error instanceof WrongExpectedRevision) return false;
      throw error;
    }
    sagaStep(this.name, agentId, 'closed');
    return true;
  }

  private async release(agentId: string, accountId: string): Promise<void> {
    await this.commands.execute(new ReleaseSeat(systemContext('seats', accountId), accountId, agentId));
    sagaStep(this.name, agentId, 'released');
  }
}

export function seatKey(agentId: string, accountId: string, takenAt: string): string {
  return `${agentId} ${accountId} ${takenAt}`;
}
