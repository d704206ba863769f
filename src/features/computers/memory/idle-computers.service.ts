import { Injectable } from '@nestjs/common';

import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { HOLD_COUNTS, IDLE_FROM } from '../../../sandboxes/services.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import { IS_WATCHED } from '../watch/viewer-watch.service.ts';
import type { MemoryLimit } from './memory-limits.ts';

/** A computer that takes memory and can be put to sleep, and its account. */
export interface IdleComputer {
  computerId: string;
  accountId: string;
}

/**
 * Selects the computers with memory, which are few, except $2: the frozen ones of the account $1, then its awake ones that are neither
 * used nor watched, then the frozen ones of other accounts if the machine ($3) is full. Those whose sleep is requested already come last.
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

/** Finds the computers that are put to sleep in favour of others. */
@Injectable()
export class IdleComputers {
  constructor(private readonly database: Database) {}

  /** Returns the computer to put to sleep in favour of the sandbox; null if there is none. */
  async next(accountId: string, sandboxId: string, lack: MemoryLimit): Promise<IdleComputer | null> {
    const [row] = await this.database.query<{ computer_id: string; account_id: string }>(NEXT, [accountId, sandboxId, lack === 'machine']);
    return row === undefined ? null : { computerId: row.computer_id, accountId: row.account_id };
  }
}
