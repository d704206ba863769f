import type { WrittenRow } from '../../../postgres/database/table.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { Projection, Rows } from '../../../eventsourcing/projections/projection.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { computerIntervalsTable } from './computer-intervals.table.ts';

type Row = WrittenRow<typeof computerIntervalsTable>;

const openKey = (computerId: string) => `open:${computerId}`;

/** The times awake of computers, computed from the engine's times in the events, so that a kill of the service changes nothing. */
export const computerIntervalsProjection: Projection<typeof computerIntervalsTable> = {
  name: 'computer_intervals',
  version: 1,
  filter: {
    eventClass: 'core',
    categories: ['computer'],
    types: [
      'ComputerCreated',
      'ComputerWoke',
      'ComputerSlept',
      'ComputerExited',
      'ComputerFailed',
      'ComputerDeletionRequested',
      'ComputerDeleted',
    ],
  },
  table: computerIntervalsTable,
  keys: ({ stream }) => [openKey(idOf(stream))],
  project(stored: StoredEvent, rows) {
    const event = stored as unknown as ComputerEvent;
    const computer_id = idOf(stored.stream);
    const interval_id = openKey(computer_id);
    if (event.type === 'ComputerCreated') {
      const { account_id, end_user_id, size } = event.data;
      rows.set(interval_id, { interval_id, computer_id, account_id, end_user_id, size, started_at: null, ended_at: null });
      return;
    }
    const open = rows.get(interval_id);
    if (open === undefined) return;
    if (event.type === 'ComputerDeleted') rows.delete(interval_id);
    else if (event.type === 'ComputerWoke')
      // A computer that had not slept yet is awake since its previous wake.
      rows.set(interval_id, { ...open, size: event.data.size, started_at: open.started_at ?? event.data.started_at });
    else end(open, endOf(event), stored, rows);
  },
};

/** Returns the end of the time awake according to the event. */
function endOf(event: ComputerEvent): string | null {
  switch (event.type) {
    case 'ComputerSlept':
      return event.data.slept_at;
    case 'ComputerExited':
      return event.data.exited_at;
    case 'ComputerFailed':
      return event.data.failed_at;
    case 'ComputerDeletionRequested':
      return event.data.requested_at;
    default:
      return null;
  }
}

function end(open: Row, ended_at: string | null, { position }: StoredEvent, rows: Rows<Row>): void {
  if (ended_at === null || open.started_at === null) return;
  const interval_id = `${open.computer_id}:${position}`;
  rows.set(interval_id, { ...open, interval_id, ended_at });
  rows.set(open.interval_id, { ...open, started_at: null });
}
