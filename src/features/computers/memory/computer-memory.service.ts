/*
 * Reservations of the machine's memory for computers: those that are awake or frozen, and those that are about to wake.
 *
 * It owns the table `computer_memory`. It does not own making room (`MemoryAllocator`), or the choice of the computers that give way
 * (`IdleComputers`).
 *
 * Invariants (decisions/0064):
 * M1. A computer's memory is reserved before its wake is in the log, and confirmed before its container starts. It is released when the
 *     container has stopped.
 * M2. The sums of all reservations stay within the limits of the machine and of the account, on all replicas together: a reservation is
 *     written under a lock of the table. An account may always have one computer.
 * M3. A reservation that no start confirms expires after RESERVATION_SECONDS.
 * M4. What a crash leaves behind is released once the read model says that the computer is at rest.
 */

import { Injectable } from '@nestjs/common';

import { Config } from '../../../kernel/config/config.ts';
import { Database } from '../../../postgres/database/database.ts';
import { tableOf } from '../../../eventsourcing/projections/projection.ts';
import { computersProjection } from '../rows/computers.projection.ts';
import type { MemoryLimit } from './memory-limits.ts';

/** M3: an unconfirmed reservation expires after this time, in seconds. */
const RESERVATION_SECONDS = 60;

/** A request for the memory of one computer. */
export interface MemoryRequest {
  sandboxId: string;
  accountId: string;
  mb: number;
}

/** The memory reserved for computers other than $1, in total and for the account $2. */
const RESERVED_BY_OTHERS = `
  select coalesce(sum(mb), 0)::float8 as machine, coalesce(sum(mb) filter (where account_id = $2), 0)::float8 as account
    from computer_memory where sandbox_id <> $1 and (reserved_until is null or reserved_until > clock_timestamp())`;

/** Writes the reservation of $3 MiB. A confirmed one stays confirmed, with the larger of both sizes, until the container is gone. */
const RESERVE = `
  insert into computer_memory as m (sandbox_id, account_id, mb, taken_at, reserved_until)
  values ($1, $2, $3, clock_timestamp(), case when $4 then null else clock_timestamp() + make_interval(secs => ${RESERVATION_SECONDS}) end)
  on conflict (sandbox_id) do update set taken_at = excluded.taken_at,
    mb = case when m.reserved_until is null and not $4 then greatest(m.mb, excluded.mb) else excluded.mb end,
    reserved_until = case when m.reserved_until is null then null else excluded.reserved_until end`;

/** M4. Computers that are frozen, running or starting need their memory. */
const DELETE_STALE = `
  delete from computer_memory m
   where m.reserved_until < clock_timestamp() - interval '1 hour'
      or m.reserved_until is null and m.taken_at < clock_timestamp() - interval '1 minute'
         and not exists (
           select from ${tableOf(computersProjection)} c
            where c.computer_id = substr(m.sandbox_id, 10)
              and (c.status in ('creating', 'waking', 'awake', 'deleting') or c.sleep_depth = 'frozen'))`;

/** Reserves the machine's memory for computers. */
@Injectable()
export class ComputerMemory {
  constructor(
    private readonly database: Database,
    private readonly config: Config,
  ) {}

  /** M1: reserves memory for a wake that is about to be requested, for a minute. Returns which limit is reached; null if it is reserved. */
  reserve(order: MemoryRequest): Promise<MemoryLimit | null> {
    return this.write(order, false);
  }

  /** M1: reserves memory for a container that is about to start, until `release`. Returns which limit is reached; null if it is reserved. */
  confirm(order: MemoryRequest): Promise<MemoryLimit | null> {
    return this.write(order, true);
  }

  /** Releases the memory of a computer whose container does not run. */
  async release(sandboxId: string): Promise<void> {
    await this.database.query('delete from computer_memory where sandbox_id = $1', [sandboxId]);
  }

  /**
   * M4: releases the memory of computers that have been at rest for a minute. A crash between the stop of a container and its record leaves it
   * reserved. The read model must have caught up.
   */
  async releaseStale(): Promise<void> {
    await this.database.query(DELETE_STALE);
  }

  /** Returns the memory (MiB) that is confirmed for the computer's container; null if there is none. */
  async confirmedFor(sandboxId: string): Promise<number | null> {
    const [row] = await this.database.query<{ mb: number }>(
      'select mb from computer_memory where sandbox_id = $1 and reserved_until is null',
      [sandboxId],
    );
    return row?.mb ?? null;
  }

  private write({ sandboxId, accountId, mb }: MemoryRequest, isConfirmed: boolean): Promise<MemoryLimit | null> {
    return this.database.transaction(async (client) => {
      // M2
      await client.query('lock table computer_memory in share row exclusive mode');
      const { rows } = await client.query<{ machine: number; account: number }>(RESERVED_BY_OTHERS, [sandboxId, accountId]);
      const others = rows[0] ?? { machine: 0, account: 0 };
      if (others.account > 0 && others.account + mb > this.config.computersMemoryPerAccountMb) return 'account';
      if (others.machine + mb > this.config.computersMemoryMaxMb) return 'machine';
      await client.query(RESERVE, [sandboxId, accountId, mb, isConfirmed]);
      return null;
    });
  }
}
