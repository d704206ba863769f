import type { StoredEvent } from '../event-store/event-store.ts';
import { EventRows, type Row } from './fold.ts';
import type { Projection } from './projection.ts';
import { PoisonEvent } from './read-model-table.ts';
import { PARTS, Spill } from './spill.ts';

export interface FoldBounds {
  /** Bytes that rows may take in memory, as estimated. */
  memoryBytes: number;
  /** Where what is more is kept meanwhile. */
  directory: string;
}

/** One row in so many is measured. */
const MEASURE_EVERY = 64;
/** What a row takes in memory against its length as JSON, about. */
const MEMORY_PER_CHARACTER = 2;
const ROWS_AT_ONCE = 500;

/** Rows in memory, and about how much they take. */
class RowMap {
  /** With the partition that each belongs to. */
  readonly rows = new Map<string, { row: Row; partition: string }>();
  private meanLength = 0;
  private sets = 0;

  get bytes(): number {
    return this.rows.size * this.meanLength * MEMORY_PER_CHARACTER;
  }

  set(key: string, row: Row, partition: string): void {
    const standing = this.rows.get(key);
    if (standing === undefined) this.rows.set(key, { row, partition });
    else standing.row = row;
    if (this.sets++ % MEASURE_EVERY !== 0) return;
    const length = JSON.stringify(row).length;
    this.meanLength += (length - this.meanLength) / Math.min(this.sets / MEASURE_EVERY + 1, 100);
  }
}

/**
 * Folds the whole log into the rows of one projection, from nothing, with bounded memory. Rows that an event adds without naming them are
 * final, and may be taken at any time. Throws `PoisonEvent`.
 */
export class BoundedFold {
  private memory = new RowMap();
  private added: Row[] = [];
  private spill: Spill | null = null;
  private readonly rowsOfEvent: EventRows;
  /** Of the event under way. */
  private partition = '';

  constructor(
    private readonly projection: Projection,
    private readonly bounds: FoldBounds,
  ) {
    this.rowsOfEvent = new EventRows(
      projection.table,
      (key) => this.memory.rows.get(key)?.row,
      (key, row, isNamed) => {
        if (row === null) this.memory.rows.delete(key);
        else if (isNamed) this.memory.set(key, row, this.partition);
        else this.added.push(row);
      },
    );
  }

  /** What its rows take in memory, about. */
  get bytes(): number {
    return this.memory.bytes;
  }

  /** Whether rows had to be put aside. */
  get spilled(): boolean {
    return this.spill !== null;
  }

  /** How many final rows there are to be taken. */
  get final(): number {
    return this.added.length;
  }

  takeFinal(): Row[] {
    const rows = this.added;
    this.added = [];
    return rows;
  }

  async take(events: readonly StoredEvent[]): Promise<void> {
    for (const event of events) {
      const named = this.keysOf(event);
      // What reads a row waits for the rows of its part.
      if (this.spill === null || named.length === 0) this.fold(event, named);
      else this.spill.add(Spill.partOf(this.partitionOf(event)), { event });
    }
    if (this.spill !== null) await this.spill.flush();
    else if (this.memory.bytes > this.bounds.memoryBytes) await this.overflow();
  }

  /** All rows that were not taken, once; after the last event. */
  async *rows(): AsyncGenerator<Row[]> {
    yield* this.finalInBatches();
    if (this.spill === null) {
      yield* inBatches(this.memory);
      return;
    }
    await this.spill.flush(0);
    for (let part = 0; part < PARTS; part += 1) {
      this.memory = new RowMap();
      for await (const item of this.spill.read(part)) {
        if ('row' in item) this.memory.set(item.row[this.projection.table.key] as string, Object.freeze(item.row), '');
        else this.fold(item.event, this.keysOf(item.event));
        if (this.final >= ROWS_AT_ONCE) yield* this.finalInBatches();
      }
      yield* this.finalInBatches();
      yield* inBatches(this.memory);
    }
  }

  private *finalInBatches(): Generator<Row[]> {
    const rows = this.takeFinal();
    for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) yield rows.slice(from, from + ROWS_AT_ONCE);
  }

  async close(): Promise<void> {
    this.memory = new RowMap();
    this.added = [];
    await this.spill?.close();
  }

  /** A failure ends the fold, so it does not matter that some changes of the event may be in. */
  private fold(event: StoredEvent, named: readonly string[]): void {
    try {
      if (named.length > 0) this.partition = this.partitionOf(event);
      this.rowsOfEvent.project(this.projection, event, named);
    } catch (error) {
      throw new PoisonEvent(event, error);
    }
  }

  private partitionOf(event: StoredEvent): string {
    return this.projection.partition === undefined ? event.stream : this.projection.partition(event);
  }

  /** Puts the rows aside, on disk, to make room; the events that read rows go there too from then on. */
  async overflow(): Promise<void> {
    this.spill = await Spill.open(this.bounds.directory);
    let number = 0;
    for (const { row, partition } of this.memory.rows.values()) {
      this.spill.add(Spill.partOf(partition), { row });
      if ((number += 1) % ROWS_AT_ONCE === 0) await this.spill.flush();
    }
    this.memory = new RowMap();
  }

  private keysOf(event: StoredEvent): string[] {
    try {
      return this.projection.keys(event);
    } catch (error) {
      throw new PoisonEvent(event, error);
    }
  }
}

function* inBatches({ rows }: RowMap): Generator<Row[]> {
  let batch: Row[] = [];
  for (const { row } of rows.values()) {
    batch.push(row);
    if (batch.length < ROWS_AT_ONCE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
