import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../platform/database/database.ts';
import { idOf, type StoredEvent } from '../platform/event-store/event-store.ts';
import { type Projection, tableOf } from '../platform/projections/projection.ts';
import { ListUnusedSeats, type UnusedSeat } from './seats.queries.ts';
import { type SeatRow, seatsTable } from './seats.table.ts';

/** The seats that are taken, with the state of each one's agent. */
export const seatsProjection: Projection<typeof seatsTable> = {
  name: 'agent_seats',
  version: 1,
  filter: {
    eventClass: 'core',
    categories: ['account', 'agent'],
    types: ['SeatTaken', 'SeatReleased', 'AgentProvisioned', 'AgentDeleted'],
  },
  table: seatsTable,
  keys: (event) => [agentIdOf(event)],
  partition: agentIdOf,
  project(event, rows) {
    const agent_id = agentIdOf(event);
    const row = rows.get(agent_id);
    if (event.type === 'SeatTaken') rows.set(agent_id, { agent_id, account_id: idOf(event.stream), taken_at: event.at, agent: 'absent' });
    else if (row === undefined) return;
    else if (event.type === 'SeatReleased') rows.delete(agent_id);
    else rows.set(agent_id, { ...row, agent: event.type === 'AgentProvisioned' ? 'live' : 'deleted' });
  },
};

/** Returns the id of the event's agent: an account's event carries it, and an agent's event has it in its stream's name. */
export function agentIdOf(event: StoredEvent): string {
  return event.stream.startsWith('account-') ? (event.data as { agent_id: string }).agent_id : idOf(event.stream);
}

@QueryHandler(ListUnusedSeats)
export class ListUnusedSeatsHandler implements IQueryHandler<ListUnusedSeats> {
  constructor(private readonly database: Database) {}

  async execute(): Promise<UnusedSeat[]> {
    const rows = await this.database.query<Omit<SeatRow, 'agent'>>(
      `select agent_id, account_id, taken_at from ${tableOf(seatsProjection)} where agent <> 'live'`,
    );
    return rows.map((row) => ({ agentId: row.agent_id, accountId: row.account_id, takenAt: row.taken_at }));
  }
}
