/**
 * The announcements of the living replicas on this database: their programs, the events that these can read, and the tables that they use.
 *
 * Owns: this replica's row in `program_replicas`, on a database session of its own, and the removal of read-model tables that no replica
 * uses. Does not own leases, or which replica does what.
 *
 * G1  An announcement is valid while its session lives, so that of a dead replica ends by itself.
 * G2  A replica announces its tables before it creates or reads them, and tables are dropped under the same lock: a dropping replica either
 *     sees the announcement, or has finished before the tables are looked up.
 * G3  Unused tables are dropped only once this program's own read models are ready: a return to an older program needs the older tables.
 * G4  A rotation of the master key waits until every announced replica has the new key.
 */
import { randomUUID } from 'node:crypto';

import { type BeforeApplicationShutdown, Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import type pg from 'pg';

import { pause } from '../../kernel/async/pause.ts';
import { MasterKeys, UnknownMasterKey } from '../../crypto/master-keys.ts';
import { isDatabaseUnavailable } from '../../postgres/database/database-unavailable.ts';
import { Database } from '../../postgres/database/database.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { Startup } from '../../kernel/startup.ts';
import { version } from '../../kernel/version.ts';
import { TABLES_LOCK } from './tables/projection-registry.ts';
import { Projections } from './projections.ts';

/** The interval at which a replica announces itself and reads the other announcements, in ms. */
const HEARTBEAT_MS = 5_000;
/** The interval at which a replica checks for tables that no replica uses, in ms. */
const DROP_EVERY_MS = 60_000;
const STATEMENT_TIMEOUT_MS = 5_000;
/**
 * A start tries for this long to announce itself, in ms: PostgreSQL ends the transaction of a replica that hangs with the lock after 30 s.
 */
const ANNOUNCE_WITHIN_MS = 45_000;
const ANNOUNCE_RETRY_MS = 250;
/** A replica that was seen this recently, in seconds, keeps its tables: perhaps only its session broke, and it will reconnect. */
const GRACE_SECONDS = 60;

const IS_LIVE = `exists (select from pg_stat_activity a where a.application_name = r.owner)`;

/** Event type → the newest version that a program can read. */
export type KnownEvents = Readonly<Record<string, number>>;

/** Another living replica whose program can't read every event that this program may write, or the other way round. */
export interface IncompatibleReplica {
  program: string;
  startedAt: Date;
  /** Events that this program may write and the other one can't read, as `Type v2`. */
  cannotRead: string[];
  /** Events that the other program may write and this one can't read. */
  mayWrite: string[];
}

/** Announces this replica, and knows what the other replicas use and can read. See G1 to G4. */
@Injectable()
export class ReplicaRegistry implements OnModuleInit, BeforeApplicationShutdown {
  /** The replicas whose programs read other events than this one, as of the last check. */
  incompatible: IncompatibleReplica[] = [];
  private readonly logger = new Logger('Replicas');
  private pool: pg.Pool | null = null;
  private session: { client: pg.PoolClient; owner: string } | null = null;
  private timer: NodeJS.Timeout | null = null;
  private heartbeat: Promise<void> = Promise.resolve();
  private stopped = false;
  private lastLogged = '';
  private dropAt = 0;
  private readonly known: KnownEvents;

  constructor(
    private readonly database: Database,
    private readonly projections: Projections,
    catalogue: EventCatalogue,
    @Inject(MasterKeys) private readonly masterKeys: Pick<MasterKeys, 'refresh'>,
    private readonly startup: Startup = new Startup(),
  ) {
    this.known = Object.fromEntries(catalogue.definitions.map(({ type, version: newest }) => [type, newest]));
  }

  /** G2: Announces this replica before any read model uses its table. */
  async onModuleInit(): Promise<void> {
    await this.startup.until('database', isDatabaseUnavailable, async () => {
      const deadline = performance.now() + ANNOUNCE_WITHIN_MS;
      while (!(await this.tryAnnounce(deadline))) await pause(ANNOUNCE_RETRY_MS);
    });
    this.scheduleHeartbeat();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    if (this.timer !== null) clearTimeout(this.timer);
    await this.heartbeat;
    const { session } = this;
    this.session = null;
    await session?.client.query('delete from program_replicas where owner = $1', [session.owner]).catch(() => undefined);
    session?.client.release(true);
  }

  /** Drops the tables of read models that no replica has used for a minute, with everything stored about them. Returns their names. */
  dropUnused(): Promise<string[]> {
    return this.database.transaction(async (client) => {
      await client.query(TABLES_LOCK);
      await client.query(
        `delete from program_replicas r where not ${IS_LIVE} and r.seen_at < clock_timestamp() - interval '${GRACE_SECONDS} seconds'`,
      );
      const { rows } = await client.query<{ table_name: string }>(
        `select p.table_name from projections p where not exists (select from program_replicas r where p.table_name = any(r.tables))`,
      );
      for (const { table_name } of rows) {
        await client.query(`set local lock_timeout = '1s'`);
        await client.query(`drop table if exists "${table_name}"`);
        for (const table of ['projections', 'projection_checkpoints', 'projection_rebuilds'])
          await client.query(`delete from ${table} where table_name = $1`, [table_name]);
      }
      return rows.map(({ table_name }) => table_name);
    });
  }

  /** Returns false if the announcement failed and may be tried again. Throws after the deadline, and if the database is unavailable. */
  private async tryAnnounce(deadline: number): Promise<boolean> {
    try {
      await this.refresh();
      return true;
    } catch (error) {
      if (isDatabaseUnavailable(error) || error instanceof UnknownMasterKey || performance.now() > deadline) throw error;
      this.logger.warn(`This replica could not announce itself and tries again: ${(error as Error).message}`);
      return false;
    }
  }

  private scheduleHeartbeat(): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => {
      this.heartbeat = this.refresh()
        .then(() => this.dropUnusedIfDue())
        .catch((error: Error) => {
          this.logger.warn(`This replica could not announce itself: ${error.message}`);
          this.endSession();
        })
        .finally(() => this.scheduleHeartbeat());
    }, HEARTBEAT_MS);
    this.timer.unref();
  }

  /** G3: Drops unused tables once this program's own read models are ready. */
  private async dropUnusedIfDue(): Promise<void> {
    if (performance.now() < this.dropAt) return;
    if (!(await this.projections.progress()).every(({ ready }) => ready)) return;
    this.dropAt = performance.now() + DROP_EVERY_MS;
    const dropped = await this.dropUnused();
    if (dropped.length > 0) this.logger.log(`These read models were dropped, because no living replica uses them: ${dropped.join(', ')}`);
  }

  private async refresh(): Promise<void> {
    const session = this.session ?? (await this.open());
    const { client, owner } = session;
    // G4
    const masterKeyId = await this.masterKeys.refresh();
    await client.query('update program_replicas set seen_at = clock_timestamp(), master_key_id = $2 where owner = $1', [
      owner,
      masterKeyId,
    ]);
    const { rows } = await client.query<{ program: string; catalogue: KnownEvents; started_at: Date }>(
      `select r.program, r.catalogue, r.started_at from program_replicas r where r.owner <> $1 and ${IS_LIVE} order by r.started_at, r.owner`,
      [owner],
    );
    this.incompatible = rows
      .map(({ program, catalogue: theirs, started_at }) => ({
        program,
        startedAt: started_at,
        cannotRead: unreadableEvents(this.known, theirs),
        mayWrite: unreadableEvents(theirs, this.known),
      }))
      .filter(({ cannotRead, mayWrite }) => cannotRead.length + mayWrite.length > 0);
    this.logDifferences();
  }

  /** Logs the replicas that differ, once for each change. */
  private logDifferences(): void {
    const sentences = describeIncompatible(this.incompatible);
    const news = sentences.join(' ');
    if (news === this.lastLogged) return;
    this.lastLogged = news;
    for (const sentence of sentences) this.logger.warn(sentence);
  }

  private async open(): Promise<{ client: pg.PoolClient; owner: string }> {
    this.pool ??= this.database.openPool('replicas', 1, { query_timeout: STATEMENT_TIMEOUT_MS });
    const client = await this.pool.connect();
    const session = { client, owner: `mooring-replica-${randomUUID()}` };
    const lost = () => this.session === session && this.endSession();
    client.once('error', lost);
    client.once('end', lost);
    try {
      await client.query(`select set_config('application_name', $1, false)`, [session.owner]);
      // G2: Unused tables are dropped under this lock too.
      await client.query('begin');
      await client.query(TABLES_LOCK);
      await client.query('insert into program_replicas (owner, program, tables, catalogue) values ($1, $2, $3, $4)', [
        session.owner,
        version,
        this.projections.tables(),
        JSON.stringify(this.known),
      ]);
      await client.query('commit');
    } catch (error) {
      client.release(true);
      throw error;
    }
    this.session = session;
    return session;
  }

  private endSession(): void {
    const { session } = this;
    this.session = null;
    session?.client.release(true);
  }
}

/** Returns the events that a program that knows `written` may write and one that knows `known` can't read, as `Type v2`. */
export function unreadableEvents(written: KnownEvents, known: KnownEvents): string[] {
  return Object.entries(written)
    .filter(([type, newest]) => (known[type] ?? 0) < newest)
    .map(([type, newest]) => `${type} v${newest}`)
    .toSorted();
}

export function describeIncompatible(unlike: readonly IncompatibleReplica[]): string[] {
  return unlike.flatMap(({ program, startedAt, cannotRead, mayWrite }) => {
    const who = `a replica of ${program}, started at ${startedAt.toISOString()},`;
    return [
      ...(cannotRead.length === 0
        ? []
        : [`${who} can't read what this program may write: ${cannotRead.join(', ')}; it stops being ready when it meets one`]),
      ...(mayWrite.length === 0
        ? []
        : [`${who} may write what this program can't read: ${mayWrite.join(', ')}; this one stops being ready when it meets one`]),
    ];
  });
}
