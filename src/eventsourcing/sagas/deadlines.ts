import TinyQueue from 'tinyqueue';

import type { Clock } from '../../kernel/clock.ts';
import type { Database } from '../../postgres/database/database.ts';
import type { Lease } from '../../postgres/leases/leases.ts';
import { SHARD_OF_KEY, shardOf } from './shards.ts';

/** Deadlines less than this apart are reported together, in ms. */
const GRAIN_MS = 10;
/** The longest timer in ms, which bounds the time until a clock that was set forward is noticed. */
const LONGEST_TIMER_MS = 60_000;
/** The pause in ms before a due key that the queue dropped is reported again. */
const REPORT_RETRY_MS = 1_000;
/** The number of superseded reminders, beyond the number of current ones, at which they are removed. */
const SUPERSEDED_MAX = 1_000;

const LOAD = `select key, due_at from saga_deadlines where saga = $1 and ${SHARD_OF_KEY} = any($2::int[])`;

const STORE = `
  insert into saga_deadlines as d (saga, key, due_at) select $1, $2, $3 from consumer_leases where name = $4 and epoch = $5
  on conflict (saga, key) do update set due_at = excluded.due_at`;

const CLEAR = `delete from saga_deadlines where saga = $1 and key = $2 and exists (select from consumer_leases where name = $3 and epoch = $4)`;

/** A time at which a key is reported. It is superseded once the key has another reminder. */
interface Reminder {
  key: string;
  at: number;
}

/**
 * The times at which the keys of one saga want to be woken, as rows that outlive a crash. Only the holder of a key's shard writes its row,
 * so its memory equals the stored rows: nothing is polled, and nothing is written unless it changes. A due row stays until the run that it
 * caused has replaced it.
 */
export class Deadlines {
  private readonly dueAt = new Map<string, number>();
  /** The current reminder by key. A key that was reported and has not run since has none. */
  private readonly reminders = new Map<string, Reminder>();
  /** All reminders, the earliest first, including superseded ones. */
  private queue = earliestFirst([]);
  private timer: NodeJS.Timeout | null = null;
  private timerAt = Infinity;
  private stopped = false;

  /** `onDue` returns whether the queue accepted the key; otherwise the key is reported again. */
  constructor(
    private readonly saga: string,
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly onDue: (key: string) => boolean,
  ) {}

  /** Reads the deadlines of the keys in the shards of these leases; `reportDue` reports them. Repeating it changes nothing. */
  async load(leases: ReadonlyMap<number, Lease>): Promise<void> {
    const rows = await this.database.query<{ key: string; due_at: Date }>(LOAD, [this.saga, [...leases.keys()]]);
    for (const { key, due_at } of rows) {
      // If the shard was lost meanwhile, its new holder reports its keys.
      if (this.dueAt.has(key) || leases.get(shardOf(key))?.signal.aborted !== false) continue;
      this.dueAt.set(key, due_at.getTime());
      this.remind(key, due_at.getTime());
    }
  }

  /** Stops reporting these keys. The stored deadlines stay. */
  drop(concerns: (key: string) => boolean): void {
    for (const key of this.dueAt.keys()) if (concerns(key)) this.remove(key);
  }

  /** Stores the time at which the key wants to be woken, or null for none. Throws if the lease of its shard was lost. */
  async set(key: string, dueAt: Date | null, lease: Lease): Promise<void> {
    const due = dueAt?.getTime();
    if (due !== this.dueAt.get(key)) await this.write(key, dueAt, lease);
    // The lease was lost meanwhile, and another process reports the key.
    if (lease.signal.aborted) return;
    if (due === undefined) this.remove(key);
    else {
      this.dueAt.set(key, due);
      this.remind(key, due);
      this.reportAt(due);
    }
  }

  stop(): void {
    this.stopped = true;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private remove(key: string): void {
    this.dueAt.delete(key);
    this.reminders.delete(key);
  }

  private async write(key: string, dueAt: Date | null, { name, fencingToken: epoch, signal }: Lease): Promise<void> {
    const { rowCount } =
      dueAt === null
        ? await this.database.pool.query(CLEAR, [this.saga, key, name, epoch])
        : await this.database.pool.query(STORE, [this.saga, key, dueAt, name, epoch]);
    if (rowCount !== 1)
      throw new Error(`the deadline of ${key} was not stored: the lease ${name} has another holder`, { cause: signal.reason });
  }

  private remind(key: string, at: number): void {
    const reminder = { key, at };
    this.reminders.set(key, reminder);
    this.queue.push(reminder);
    if (this.queue.length > 2 * this.reminders.size + SUPERSEDED_MAX) this.queue = earliestFirst([...this.reminders.values()]);
  }

  /** Reports the overdue keys now, and the other keys when they are due. */
  reportDue(): void {
    if (this.stopped) return;
    const now = this.clock.now().getTime();
    this.timerAt = Infinity;
    for (let next = this.queue.peek(); next !== undefined; next = this.queue.peek()) {
      if (this.reminders.get(next.key) !== next) this.queue.pop();
      else if (next.at > now) return this.reportAt(next.at);
      else {
        this.queue.pop();
        if (this.onDue(next.key)) this.reminders.delete(next.key);
        else this.remind(next.key, now + REPORT_RETRY_MS);
      }
    }
  }

  private reportAt(due: number): void {
    if (due >= this.timerAt || this.stopped) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timerAt = due;
    const ms = Math.max(due - this.clock.now().getTime(), GRAIN_MS);
    this.timer = setTimeout(() => this.reportDue(), Math.min(ms, LONGEST_TIMER_MS));
  }
}

function earliestFirst(reminders: Reminder[]): TinyQueue<Reminder> {
  return new TinyQueue(reminders, (a, b) => a.at - b.at);
}
