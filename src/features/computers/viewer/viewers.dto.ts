import { IsBoolean, IsIn, IsInt, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';

import { Given, Text } from '../../agents/index.ts';
import { PageQueryDto } from '../../../http/requests/page.dto.ts';
import { hasLength } from '../../../http/requests/validation.ts';
import type { SessionView } from './viewer-sessions.service.ts';
import { type SessionStatus, sessionStatuses } from './viewer-sessions.table.ts';
import type { ViewerMode } from './viewers.events.ts';

const LABEL_MAX = 100;
export const DEFAULT_TTL_SECONDS = 300;
const TTL_SECONDS = { min: 30, max: 86_400 };

export class OpenViewerDto {
  /** `control` (the default) allows the viewer to use the desktop, `view` only to see it. */
  @IsOptional()
  @IsIn(['control', 'view'])
  mode?: ViewerMode;

  /** The seconds for which the link is valid; the default is 300. */
  @IsOptional()
  @IsInt()
  @Min(TTL_SECONDS.min)
  @Max(TTL_SECONDS.max)
  ttl_seconds?: number;

  /** While a viewer of an exclusive session is connected, nobody else controls the computer: neither other viewers nor actions. */
  @IsOptional()
  @IsBoolean()
  exclusive?: boolean;

  /** A text by which people know the session, 1 to 100 characters. */
  @Given()
  @Text((label) =>
    hasLength(label, 1, LABEL_MAX) && !/\p{Cc}/u.test(label)
      ? null
      : `must have 1 to ${LABEL_MAX} characters, none of them a control character`,
  )
  label?: string;
}

export class ViewerDto {
  session_id: string;
  /** The link, which the first browser that opens it may use until it expires. Whoever has it needs no other credential. */
  url: string;
  mode: ViewerMode;
  expires_at: string;
}

export class ListSessionsDto extends PageQueryDto {
  @IsOptional()
  @IsIn(sessionStatuses)
  status?: SessionStatus;
}

export class SessionDto {
  session_id: string;
  computer_id: string;
  mode: ViewerMode;
  exclusive: boolean;
  label: string | null;
  status: SessionStatus;
  created_at: string;
  expires_at: string;
  /** The time of the first connection; null if there was none. */
  connected_at: string | null;
  last_input_at: string | null;
  closed_at: string | null;
  /** The number of its open connections. */
  connections: number;
}

export class CloseSessionsDto {
  /** The session to close; without it, all of the computer are closed. */
  @IsOptional()
  @IsString()
  @MaxLength(100)
  session_id?: string;
}

export class ClosedSessionsDto {
  closed: number;
}

export function toSessionDto({ row, lastInputAt }: SessionView): SessionDto {
  return {
    session_id: row.session_id,
    computer_id: row.computer_id,
    mode: row.mode,
    exclusive: row.exclusive,
    label: row.label,
    status: row.status,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at.toISOString(),
    connected_at: row.first_connected_at?.toISOString() ?? null,
    last_input_at: lastInputAt?.toISOString() ?? null,
    closed_at: row.closed_at?.toISOString() ?? null,
    connections: row.connections,
  };
}
