import type { Database } from '../../../postgres/database/database.ts';
import { START, type Position } from '../../event-store/event-store.ts';

/** The reason of a rebuild: an operator requested it, the version changed, rows were missing, or the read model was far behind the log. */
export type RebuildReason = 'requested' | 'version' | 'empty' | 'behind';
export type RebuildPhase = 'waiting' | 'folding' | 'writing' | 'catching_up';

export interface RebuildOrder {
  id: string;
  reason: RebuildReason;
}

export interface RebuildProgress extends RebuildOrder {
  /** The table that is rebuilt. */
  table: string;
  phase: RebuildPhase;
  /** The position up to which the log was folded; it is folded up to `target`. */
  position: Position;
  target: Position;
  events: number;
  /** The rate of the fold; null before it begins. */
  eventsPerSecond: number | null;
  startedAt: Date;
  updatedAt: Date;
}

const columns = `table_name as "table", id, reason, phase, position, target, events::float8 as events, events_per_second as "eventsPerSecond",
  started_at as "startedAt", updated_at as "updatedAt"`;

/** The interval at which the stored progress is updated, in ms. */
const STORE_EVERY_MS = 500;

/** Returns every running rebuild, on any replica. */
export function runningRebuilds(database: Database): Promise<RebuildProgress[]> {
  return database.query<RebuildProgress & Record<string, unknown>>(`select ${columns} from projection_rebuilds`);
}

/** Stores the progress of one rebuild, so that any replica can report it. Only the newest holder of the projection's lease can write it. */
export class ProgressRecord {
  private events = 0;
  private position: Position = START;
  private foldingSince: number | null = null;
  private storedAt = 0;

  constructor(
    private readonly database: Database,
    private readonly table: string,
    private readonly fencingToken: string,
  ) {}

  async open({ id, reason }: RebuildOrder, target: Position): Promise<void> {
    await this.database.query(
      `insert into projection_rebuilds as r (table_name, id, reason, phase, epoch, position, target, events) values ($1, $2, $3, 'waiting', $4, $5, $6, 0)
       on conflict (table_name) do update set id = excluded.id, reason = excluded.reason, phase = excluded.phase, epoch = excluded.epoch,
         position = excluded.position, target = excluded.target, events = 0, events_per_second = null, updated_at = now(),
         started_at = case when r.id = excluded.id then r.started_at else now() end
       where r.epoch <= excluded.epoch`,
      [this.table, id, reason, this.fencingToken, START, target],
    );
  }

  async enter(phase: RebuildPhase): Promise<void> {
    if (phase === 'folding') this.foldingSince = performance.now();
    await this.store(`phase = '${phase}'`);
  }

  /** Adds that number of folded events, up to the position. */
  async add(events: number, position: Position): Promise<void> {
    this.events += events;
    this.position = position;
    if (performance.now() - this.storedAt >= STORE_EVERY_MS) await this.store();
  }

  /** Returns the number of folded events, in total and per second. */
  rate(): { events: number; eventsPerSecond: number | null } {
    const seconds = this.foldingSince === null ? 0 : (performance.now() - this.foldingSince) / 1_000;
    return { events: this.events, eventsPerSecond: seconds > 0 ? Math.round(this.events / seconds) : null };
  }

  /** Removes the progress after the rebuild has ended, whatever its outcome. */
  async close(): Promise<void> {
    await this.database.query('delete from projection_rebuilds where table_name = $1 and epoch = $2', [this.table, this.fencingToken]);
  }

  private async store(more?: string): Promise<void> {
    this.storedAt = performance.now();
    const { events, eventsPerSecond } = this.rate();
    await this.database.query(
      `update projection_rebuilds set position = $3, events = $4, updated_at = now()
         ${more === undefined ? ', events_per_second = $5' : `, events_per_second = coalesce(events_per_second, $5), ${more}`}
        where table_name = $1 and epoch = $2`,
      [this.table, this.fencingToken, this.position, events, eventsPerSecond],
    );
  }
}
