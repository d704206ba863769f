import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../postgres/database/database.ts';
import { idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../eventsourcing/projections/projection.ts';
import { sandboxIdOf, sandboxOfStream, type SandboxOwner } from '../../sandboxes/index.ts';
import { ListUnusedSeats, type UnusedSeat } from './seats.queries.ts';
import { type SeatRow, seatsTable } from './seats.table.ts';

/** The events about seats and their holders, with their meaning. */
const MEANINGS: Record<string, 'taken' | 'released' | 'live' | 'deleted'> = {
  SeatTaken: 'taken',
  SeatReleased: 'released',
  AgentProvisioned: 'live',
  AgentDeleted: 'deleted',
  ComputerSeatTaken: 'taken',
  ComputerSeatReleased: 'released',
  ComputerCreated: 'live',
  ComputerDeleted: 'deleted',
};

/** The taken seats, with the state of their agents or computers. */
export const seatsProjection: Projection<typeof seatsTable> = {
  name: 'seats',
  version: 1,
  filter: { eventClass: 'core', categories: ['account', 'agent', 'computer'], types: Object.keys(MEANINGS) },
  table: seatsTable,
  keys: (event) => [holderOf(event)],
  partition: holderOf,
  project(event, rows) {
    const sandbox_id = holderOf(event);
    const row = rows.get(sandbox_id);
    const meaning = MEANINGS[event.type];
    if (meaning === 'taken') rows.set(sandbox_id, { sandbox_id, account_id: idOf(event.stream), taken_at: event.at, holder: 'absent' });
    else if (row === undefined || meaning === undefined) return;
    else if (meaning === 'released') rows.delete(sandbox_id);
    else rows.set(sandbox_id, { ...row, holder: meaning });
  },
};

/** Returns the sandbox id of the event's agent or computer: from the data of an account's event, or from the name of the stream. */
export function holderOf(event: StoredEvent): string {
  return sandboxOfStream(event.stream) ?? sandboxIdOf(event.data as unknown as SandboxOwner);
}

@QueryHandler(ListUnusedSeats)
export class ListUnusedSeatsHandler implements IQueryHandler<ListUnusedSeats> {
  constructor(private readonly database: Database) {}

  async execute(): Promise<UnusedSeat[]> {
    const rows = await this.database.query<Omit<SeatRow, 'holder'>>(
      `select sandbox_id, account_id, taken_at from ${tableOf(seatsProjection)} where holder <> 'live'`,
    );
    return rows.map((row) => ({ sandboxId: row.sandbox_id, accountId: row.account_id, takenAt: row.taken_at }));
  }
}
