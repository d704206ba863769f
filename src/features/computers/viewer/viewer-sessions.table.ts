import type { ReadRow } from '../../../postgres/database/table.ts';
import { typed } from '../../../postgres/database/table.ts';
import type { ProjectionTable } from '../../../eventsourcing/projections/projection.ts';
import type { ViewerMode } from './viewers.events.ts';

export const sessionStatuses = ['pending', 'connected', 'disconnected', 'closed', 'expired'] as const;
export type SessionStatus = (typeof sessionStatuses)[number];

/** The days for which a session is listed after the time at which it expires. */
export const SESSION_KEPT_DAYS = 30;

/** The condition that a session can be used, or has expired just now. */
export const IS_OPEN = `status not in ('closed', 'expired')`;

/** The sessions in which people see computers. */
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
    /** The API key that made it; null for a person who was signed in. */
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
