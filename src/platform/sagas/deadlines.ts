import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Lease } from '../projections/leases.ts';

/** Deadlines less than this apart are told together. */
const GRAIN_MS = 10;
/** A timer is never set longer: a clock that is put forward is noticed within this. */
const LONGEST_TIMER_MS = 60_000;

const STORE = `
  insert into saga_deadlines as d (saga, key, due_at) select $1, $2, $3 from consumer_leases where name = $4 and epoch = $5
  on conflict (saga, key) do update set due_at = excluded.due_at`;

const CLEAR = `delete from saga_deadlines where saga = $1 and key = $2 and exists (select from consumer_leases where name = $3 and epoch = $4)`;

/**
 * When the keys of one saga want to be woken, as rows that outlive a crash. Only the holder of the saga's lease writes them, so
 * what it has in memory is what is stored: nothing is polled, and nothing is written where nothing changes. A due row stays
 * until the run that it caused has replaced it.
 */
export class Deadlines {
  private readonly dueAt = new Map<string, number>();
  /** Due, and told; not told again until set anew. */
  private readonly told = new Set<string>();
  private timer: NodeJS.Timeout | null = null;
  private timerAt = Infinity;

  private constructor(
    private readonly saga: string,
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly lease: Lease,
    private readonly onDue: (key: string) => void,
  ) {}

  /** Reads what is stored. */
  static async load(
    saga: string,
    tools: { database: Database; clock: Clock; lease: Lease },
    onDue: (key: string) => void,
  ): Promise<Deadlines> {
    const deadlines = new Deadlines(saga, tools.database, tools.clock, tools.lease, onDue);
    const rows = await tools.database.query<{ key: string; due_at: Date }>('select key, due_at from saga_deadlines where saga = $1', [
      saga,
    ]);
    for (const { key, due_at } of rows) deadlines.dueAt.set(key, due_at.getTime());
    return deadlines;
  }

  /** Tells what is overdue, and from now on what falls due. */
  start(): void {
    this.tell();
  }

  /** Stores when the key wants to be woken, or (null) that it does not. Throws where the lease was lost. */
  async set(key: string, dueAt: Date | null): Promise<void> {
    const due = dueAt?.getTime();
    if (due !== this.dueAt.get(key)) await this.write(key, dueAt);
    this.told.delete(key);
    if (due === undefined) this.dueAt.delete(key);
    else {
      this.dueAt.set(key, due);
      this.tellBy(due);
    }
  }

  stop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private async write(key: string, dueAt: Date | null): Promise<void> {
    const { name, epoch, signal } = this.lease;
    const { rowCount } =
      dueAt === null
        ? await this.database.pool.query(CLEAR, [this.saga, key, name, epoch])
        : await this.database.pool.query(STORE, [this.saga, key, dueAt, name, epoch]);
    if (rowCount !== 1)
      throw new Error(`the deadline of ${key} was not stored: the lease ${name} has another holder`, { cause: signal.reason });
  }

  private tell(): void {
    const now = this.clock.now().getTime();
    let next = Infinity;
    for (const [key, due] of this.dueAt) {
      if (this.told.has(key)) continue;
      if (due > now) next = Math.min(next, due);
      else {
        this.told.add(key);
        this.onDue(key);
      }
    }
    this.timerAt = Infinity;
    if (next < Infinity) this.tellBy(next);
  }

  private tellBy(due: number): void {
    if (due >= this.timerAt) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timerAt = due;
    const ms = Math.max(due - this.clock.now().getTime(), GRAIN_MS);
    this.timer = setTimeout(() => this.tell(), Math.min(ms, LONGEST_TIMER_MS));
  }
}
