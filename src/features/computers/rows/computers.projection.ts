import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { Projection } from '../../../eventsourcing/projections/projection.ts';
import { evolvedRow } from '../../../eventsourcing/projections/tables/evolved-row.ts';
import { evolve } from '../aggregate/computer-state.rules.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { computerRow, computersTable } from './computers.table.ts';

/** Lists the computers that are not deleted. Each row is the decider's state of the stream, so that rules and responses can't differ. */
export const computersProjection: Projection<typeof computersTable> = {
  name: 'computers',
  version: 1,
  filter: { eventClass: 'core', categories: ['computer'] },
  table: computersTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const computer_id = idOf(stored.stream);
    const row = rows.get(computer_id);
    const { state, revision, createdAt, changedAt } = evolvedRow(evolve, row, stored as StoredEvent & ComputerEvent);
    if (state !== null && state.status !== 'deleted')
      rows.set(computer_id, computerRow(computer_id, { state, revision, createdAt, changedAt }));
    else if (row !== undefined) rows.delete(computer_id);
  },
};
