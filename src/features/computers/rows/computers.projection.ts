import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { Projection } from '../../../eventsourcing/projections/projection.ts';
import { evolve, shownStatus } from '../aggregate/computer-state.decider.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { computersTable } from './computers.table.ts';

/** Lists the computers that are not deleted. Each row is the decider's fold of its stream, so that rules and answers can't differ. */
export const computersProjection: Projection<typeof computersTable> = {
  name: 'computers',
  version: 1,
  filter: { eventClass: 'core', categories: ['computer'] },
  table: computersTable,
  keys: (event) => [idOf(event.stream)],
  project(stored: StoredEvent, rows) {
    const computer_id = idOf(stored.stream);
    const row = rows.get(computer_id);
    const state = evolve(row?.state ?? null, stored as unknown as ComputerEvent);
    if (state === null || state.status === 'deleted') {
      if (row !== undefined) rows.delete(computer_id);
      return;
    }
    rows.set(computer_id, {
      computer_id,
      account_id: state.accountId,
      end_user_id: state.endUserId,
      status: shownStatus(state),
      sleep_depth: state.sleepDepth,
      state,
      image: state.image,
      revision: stored.revision,
      created_at: row?.created_at ?? stored.at,
      updated_at: row !== undefined && state === row.state ? row.updated_at : stored.at,
    });
  },
};
