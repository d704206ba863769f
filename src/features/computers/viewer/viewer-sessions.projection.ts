import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';

import { Database } from '../../../postgres/database/database.ts';
import { entityOf, newestFirst } from '../../../postgres/database/entities.ts';
import type { WrittenRow } from '../../../postgres/database/table.ts';
import type { StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { type Projection, tableOf } from '../../../eventsourcing/projections/projection.ts';
import { ListSessions } from './viewer-sessions.queries.ts';
import { type SessionRow, viewerSessionsTable } from './viewer-sessions.table.ts';
import type { ViewerEvent } from './viewers.events.ts';

type WrittenSession = WrittenRow<typeof viewerSessionsTable>;

export const viewerSessionsProjection: Projection<typeof viewerSessionsTable> = {
  name: 'viewer_sessions',
  version: 1,
  filter: { eventClass: 'core', categories: ['viewer'] },
  table: viewerSessionsTable,
  keys: (stored) => [(stored as unknown as ViewerEvent).data.session_id],
  project(stored, rows) {
    const event = stored as unknown as ViewerEvent;
    const { session_id } = event.data;
    if (event.type === 'ViewerCreated') return rows.set(session_id, created(stored, event.data));
    const row = rows.get(session_id);
    if (row !== undefined) rows.set(session_id, { ...row, ...changeBy(event, row, stored.at) });
  },
};

function created(stored: StoredEvent, data: Extract<ViewerEvent, { type: 'ViewerCreated' }>['data']): WrittenSession {
  const { session_id, computer_id, account_id, mode, exclusive, label, expires_at } = data;
  const ofSession = { session_id, computer_id, account_id, mode, exclusive, label, expires_at };
  const { actor } = stored.metadata;
  const key_id = actor.kind === 'api_key' ? actor.id : null;
  return { ...ofSession, key_id, status: 'pending', connections: 0, created_at: stored.at, first_connected_at: null, closed_at: null };
}

function changeBy(event: Exclude<ViewerEvent, { type: 'ViewerCreated' }>, row: WrittenSession, at: string): Partial<WrittenSession> {
  switch (event.type) {
    case 'ViewerConnected':
      return { status: 'connected', connections: row.connections + 1, first_connected_at: row.first_connected_at ?? at };
    case 'ViewerDisconnected': {
      const connections = Math.max(0, row.connections - 1);
      return { status: connections === 0 ? 'disconnected' : 'connected', connections };
    }
    case 'ViewerClosed':
      return { status: event.data.reason === 'expired' ? 'expired' : 'closed', connections: 0, closed_at: at };
    default:
      event satisfies never;
      return {};
  }
}

const sessionRows = entityOf(tableOf(viewerSessionsProjection), viewerSessionsTable);

@QueryHandler(ListSessions)
export class ListSessionsHandler implements IQueryHandler<ListSessions> {
  constructor(private readonly database: Database) {}

  execute({ computerId, status, ...page }: ListSessions): Promise<SessionRow[]> {
    const query = this.database.dataSource
      .getRepository(sessionRows)
      .createQueryBuilder('s')
      .where('s.computer_id = :computerId', { computerId });
    if (status !== null) query.andWhere('s.status = :status', { status });
    return newestFirst(query, ['s.created_at', 's.session_id'], page).getMany();
  }
}
