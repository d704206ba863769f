import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { HOLD_COUNTS, IDLE_FROM } from '../../../sandboxes/services.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { IS_WATCHED } from '../watch/viewer-watch.service.ts';
import type { MemoryLack } from './memory-lacks.ts';

/** A computer that takes memory and can be put to sleep, and whose it is. */
export interface IdleComputer {
  computerId: string;
  accountId: string;
}

/**
 * The computers that take memory, which are few, and are not $2: those of the account $1 that are frozen, then those of it that are awake and
 * nobody uses or sees, then the frozen ones of others if the machine ($3) is full. Those that are asked already come last.
 */
const NEXT = `
  select c.computer_id, c.account_id
    from computer_memory m
    join ${tableOf(computersProjection)} c on c.computer_id = substr(m.sandbox_id, 10)
    left join agent_activity v on v.agent_id = m.sandbox_id
   where m.reserved_until is null and m.sandbox_id <> $2
     and case when c.status = 'asleep' then c.account_id = $1 or $3
              else c.status = 'awake' and c.account_id = $1
                   and not exists (select from agent_holds h where h.agent_id = m.sandbox_id and ${HOLD_COUNTS})
                   and not exists (select from viewer_connections w where w.computer_id = c.computer_id and ${IS_WATCHED}) end
   order by (c.state->>'wantedSleep') is not distinct from 'stopped', c.account_id <> $1, c.status <> 'asleep',
            coalesce(${IDLE_FROM}, c.created_at)
   limit 1`;

/** Finds the computers that make room for others. */
@Injectable()
export class IdleComputers {
  constructor(private readonly database: Database) {}

  /** Returns the computer that is to make room for the sandbox of the account; null if there is none. */
  async next(accountId: string, sandboxId: string, lack: MemoryLack): Promise<IdleComputer | null> {
    const [row] = await this.database.query<{ computer_id: string; account_id: string }>(NEXT, [accountId, sandboxId, lack === 'machine']);
    return row === undefined ? null : { computerId: row.computer_id, accountId: row.account_id };
  }
}
