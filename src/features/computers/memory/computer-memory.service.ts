import { Injectable } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import type { MemoryLack } from './memory-lacks.ts';

/** The time for which a reservation stands that no boot has confirmed, in seconds. */
const RESERVED_SECONDS = 60;

/** A computer's memory, and whose it is. */
export interface MemoryOrder {
  sandboxId: string;
  accountId: string;
  mb: number;
}

/** The memory that others have, of all accounts and of the account $2, besides the computer $1. */
const OTHERS = `
  select coalesce(sum(mb), 0)::float8 as machine, coalesce(sum(mb) filter (where account_id = $2), 0)::float8 as account
    from computer_memory where sandbox_id <> $1 and (reserved_until is null or reserved_until > clock_timestamp())`;

/** Writes the reservation of $3 MiB. One that stands for a container stays until that is gone, and what is larger counts. */
const RESERVE = `
  insert into computer_memory as m (sandbox_id, account_id, mb, taken_at, reserved_until)
  values ($1, $2, $3, clock_timestamp(), case when $4 then null else clock_timestamp() + make_interval(secs => ${RESERVED_SECONDS}) end)
  on conflict (sandbox_id) do update set taken_at = excluded.taken_at,
    mb = case when m.reserved_until is null and not $4 then greatest(m.mb, excluded.mb) else excluded.mb end,
    reserved_until = case when m.reserved_until is null then null else excluded.reserved_until end`;

/** A computer that is frozen, or brings up its container, has its memory, and so has one that runs. */
const FORGOTTEN = `
  delete from computer_memory m
   where m.reserved_until < clock_timestamp() - interval '1 hour'
      or m.reserved_until is null and m.taken_at < clock_timestamp() - interval '1 minute'
         and not exists (
           select from ${tableOf(computersProjection)} c
            where c.computer_id = substr(m.sandbox_id, 10)
              and (c.status in ('creating', 'waking', 'awake', 'deleting') or c.sleep_depth = 'frozen'))`;

/** Keeps the books of the memory that computers take of the machine: awake ones and frozen ones, and those that are about to be. */
@Injectable()
export class ComputerMemory {
  constructor(
    private readonly database: Database,
    private readonly config: Config,
  ) {}

  /** Reserves the memory for a wake that is about to be requested, for a minute. Returns what lacks it; null if it is reserved. */
  reserve(order: MemoryOrder): Promise<MemoryLack | null> {
    return this.write(order, false);
  }

  /** Reserves the memory for a container that is about to start, until `release`. Returns what lacks it; null if it is reserved. */
  confirm(order: MemoryOrder): Promise<MemoryLack | null> {
    return this.write(order, true);
  }

  /** Gives the memory back of a computer whose container does not run. */
  async release(sandboxId: string): Promise<void> {
    await this.database.query('delete from computer_memory where sandbox_id = $1', [sandboxId]);
  }

  /**
   * Gives the memory back of computers that have been at rest for a minute, which a crash between the stop of a container and its record leaves
   * behind. The read model must have caught up.
   */
  async releaseForgotten(): Promise<void> {
    await this.database.query(FORGOTTEN);
  }

  /** Returns the memory (MiB) that is taken for the computer's container; null if none is. */
  async takenBy(sandboxId: string): Promise<number | null> {
    const [row] = await this.database.query<{ mb: number }>(
      'select mb from computer_memory where sandbox_id = $1 and reserved_until is null',
      [sandboxId],
    );
    return row?.mb ?? null;
  }

  private write({ sandboxId, accountId, mb }: MemoryOrder, isConfirmed: boolean): Promise<MemoryLack | null> {
    return this.database.transaction(async (client) => {
      // The sums must not change until the reservation is written, on whatever replica.
      await client.query('lock table computer_memory in share row exclusive mode');
      const { rows } = await client.query<{ machine: number; account: number }>(OTHERS, [sandboxId, accountId]);
      const others = rows[0] ?? { machine: 0, account: 0 };
      if (others.account > 0 && others.account + mb > this.config.computersMemoryPerAccountMb) return 'account';
      if (others.machine + mb > this.config.computersMemoryMaxMb) return 'machine';
      await client.query(RESERVE, [sandboxId, accountId, mb, isConfirmed]);
      return null;
    });
  }
}
