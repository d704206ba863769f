import type { WrittenRow } from '../../../postgres/database/table.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import type { Projection } from '../../../eventsourcing/projections/projection.ts';
import { computerOf } from '../../../sandboxes/index.ts';
import type { ComputerEvent } from '../aggregate/computers.events.ts';
import { computerCountsTable } from './computer-counts.table.ts';

type Row = WrittenRow<typeof computerCountsTable>;
type Counts = Pick<Row, 'actions' | 'screenshots' | 'exec_calls' | 'viewer_seconds'>;

/** Counts the actions on computers. An event counts on the day on which it was stored. */
export const computerCountsProjection: Projection<typeof computerCountsTable> = {
  name: 'computer_counts',
  version: 1,
  filter: { eventClass: 'core', categories: ['computer', 'exec', 'viewer'], types: ['ComputerActed', 'ExecStarted', 'ViewerDisconnected'] },
  concerns: (event) => computerOf(event) !== null,
  table: computerCountsTable,
  keys: (event) => (computerOf(event) === null ? [] : [keyOf(event)]),
  partition: (event) => computerOf(event) ?? event.stream,
  project(stored, rows) {
    const computer_id = computerOf(stored);
    const { account_id } = stored.metadata;
    if (computer_id === null || account_id === null) return;
    const count_id = keyOf(stored);
    const day = `${dayOf(stored)}T00:00:00.000Z`;
    const row = rows.get(count_id) ?? {
      count_id,
      computer_id,
      account_id,
      day,
      actions: 0,
      screenshots: 0,
      exec_calls: 0,
      viewer_seconds: 0,
    };
    const { actions, screenshots, exec_calls, viewer_seconds } = countsOf(stored);
    rows.set(count_id, {
      ...row,
      actions: row.actions + actions,
      screenshots: row.screenshots + screenshots,
      exec_calls: row.exec_calls + exec_calls,
      viewer_seconds: row.viewer_seconds + viewer_seconds,
    });
  },
};

function dayOf({ at }: StoredEvent): string {
  return at.slice(0, 10);
}

function keyOf(event: StoredEvent): string {
  return `${computerOf(event)}:${dayOf(event)}`;
}

function countsOf(stored: StoredEvent): Counts {
  const none = { actions: 0, screenshots: 0, exec_calls: 0, viewer_seconds: 0 };
  switch (stored.type) {
    case 'ComputerActed': {
      const { actions, screenshots } = (stored as unknown as Extract<ComputerEvent, { type: 'ComputerActed' }>).data;
      return { ...none, actions: Object.values(actions).reduce((sum, count) => sum + count, 0), screenshots };
    }
    case 'ExecStarted':
      return { ...none, exec_calls: 1 };
    case 'ViewerDisconnected':
      return { ...none, viewer_seconds: Number(stored.data.seconds) };
    default:
      return none;
  }
}
