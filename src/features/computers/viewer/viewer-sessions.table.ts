import type { ReadRow } from '../../../postgres/database/table.ts';
import { typed } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import type { ViewerMode } from './viewers.events.ts';

export const sessionStatuses = ['pending', 'connected', 'disconnected', 'closed', 'expired'] as const;
export type SessionStatus = (typeof sessionStatuses)[number];

/** A session is listed for this many days after its expiry. */
export const SESSION_KEPT_DAYS = 30;

/** The SQL condition for sessions that can be used, or whose expiry is not recorded yet. */
export const IS_OPEN = `status not in ('closed', 'expired')`;

/** The viewer sessions of computers. */
export const viewerSessionsTable = {
  key: 'session_id',
  columns: {
    session_id: 'text collate "C" not null',
    computer_id: 'text collate "C" not null',
    account_id: 'text collate "C" not null',
    mode: typed<ViewerMode>('text not null'),
    exclusive: 'boolean not null',
    label: 'text',
    status: typed<SessionStatus>('text not null'),
    connections: 'integer not null',
    /** The API key with which it was created; null if it was created by a signed-in person. */
    key_id: 'text collate "C"',
    created_at: 'timestamptz(3) not null',
    expires_at: 'timestamptz(3) not null',
    first_connected_at: 'timestamptz(3)',
    closed_at: 'timestamptz(3)',
  },
  indexes: {
    by_computer: '(computer_id, created_at desc, session_id desc)',
    open_by_key: `(key_id) where key_id is not null and ${IS_OPEN}`,
  },
  expires: { column: 'expires_at', days: SESSION_KEPT_DAYS },
} as const satisfies ProjectionTable;

export type SessionRow = ReadRow<typeof viewerSessionsTable>;
