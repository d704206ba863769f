/**
 * Folds the whole log into the rows of one projection, from nothing, with bounded memory.
 *
 * Owns: the rows in memory, and the file that they are spilled to. Does not own the reading of the log or the table.
 *
 * M1  Rows that an event adds without naming them are final: no later event changes them, and they may be written at any time.
 * M2  The memory of the rows is estimated, by measuring one row in 64. Beyond the bound all rows go to disk by partition, and so do the
 *     later events that read rows; at the end one partition at a time is folded in memory.
 * M3  Events of one partition keep their order, and rows of different partitions are independent, so the result is that of a plain fold.
 */
import type { StoredEvent } from '../../event-store/event-store.ts';
import { EventRows, type Row } from '../tables/fold.ts';
import type { Projection } from '../projection.ts';
import { PoisonEvent } from '../tables/read-model-table.ts';
import { CopyText } from '../tables/row-copy.ts';
import { PARTS, Spill } from './spill.ts';

export interface FoldBounds {
  /** The memory that rows may take, in bytes, as estimated. */
  memoryBytes: number;
  /** The directory for the rows that do not fit into memory. */
  directory: string;
}

/** M2: One row in this many is measured, to estimate the size of all. */
const MEASURED_ROWS = 64;
/** The estimated memory of a row per character of its JSON, in bytes. */
const MEMORY_PER_CHARACTER = 2;
const ROWS_AT_ONCE = 500;
/** The text of final rows that is yielded at a time, in bytes. */
const TEXT_BYTES = 256 * 1024;

interface Entry {
  row: Row;
  /** The partition that the row belongs to. */
  partition: string;
}

/** Rows in memory, with an estimate of the memory that they take. */
class RowMap {
  private readonly entries = new Map<string, Entry>();
  private meanLength = 0;
  private sets = 0;
  /** The last lookup, kept because an event reads a row and then changes it. */
  private found: { key: string; entry: Entry | undefined } = { key: '', entry: undefined };

  get bytes(): number {
    return this.entries.size * this.meanLength * MEMORY_PER_CHARACTER;
  }

  all(): Iterable<Entry> {
    return this.entries.values();
  }

  get(key: string): Row | undefined {
    return this.find(key)?.row;
  }

  set(key: string, row: Row, partition: string): void {
    const entry = this.find(key);
    if (entry === undefined) this.entries.set(key, (this.found.entry = { row, partition }));
    else entry.row = row;
    if (this.sets++ % MEASURED_ROWS !== 0) return;
    const length = JSON.stringify(row).length;
    this.meanLength += (length - this.meanLength) / Math.min(this.sets / MEASURED_ROWS + 1, 100);
  }

  delete(key: string): void {
    this.entries.delete(key);
    this.found = { key, entry: undefined };
  }

  private find(key: string): Entry | undefined {
    const { found } = this;
    if (key === found.key) return found.entry;
    found.key = key;
    found.entry = this.entries.get(key);
    return found.entry;
  }
}

/** The fold of one projection, whose rows it returns as the text of a COPY. Throws `PoisonEvent`. */
export class BoundedFold {
  private memory = new RowMap();
  private readonly final: CopyText;
  private spill: Spill | null = null;
  private readonly rowsOfEvent: EventRows;
  /** The partition of the current event. */
  private partition = '';

  constructor(
    private readonly projection: Projection,
    private readonly bounds: FoldBounds,
  ) {
    this.final = new CopyText(projection.table);
    this.rowsOfEvent = new EventRows(
      projection.table,
      (key) => this.memory.get(key),
      (key, row, isNamed) => {
        if (row === null) this.memory.delete(key);
        else if (isNamed) this.memory.set(key, row, this.partition);
        else this.final.add(row);
      },
    );
  }

  /** The estimated memory that its rows take, in bytes. */
  get bytes(): number {
    return this.memory.bytes;
  }

  /** Returns whether rows had to be moved to disk. */
  get spilled(): boolean {
    return this.spill !== null;
  }

  /** M1: Returns the size of the text of final rows that can be written, in bytes. */
  get finalBytes(): number {
    return this.final.bytes;
  }

  drainFinal(): Buffer {
    return this.final.drain();
  }

  async apply(events: readonly StoredEvent[]): Promise<void> {
    for (const event of events) {
      const named = this.keysOf(event);
      // M2: Once rows are on disk, an event that reads rows is folded later, with the rows of its partition.
      if (this.spill === null || named.length === 0) this.fold(event, named);
      else this.spill.add(Spill.partOf(this.partitionOf(event)), { event });
    }
    if (this.spill !== null) await this.spill.flush();
    else if (this.memory.bytes > this.bounds.memoryBytes) await this.spillToDisk();
  }

  /** Yields the text of all rows that were not written before. It may be called once, after the last event. */
  async *text(): AsyncGenerator<Buffer> {
    if (this.final.bytes > 0) yield this.final.drain();
    if (this.spill === null) {
      yield* this.rowsInMemory();
      return;
    }
    await this.spill.flush(0);
    for (let part = 0; part < PARTS; part += 1) {
      this.memory = new RowMap();
      for await (const item of this.spill.read(part)) {
        if ('row' in item) this.memory.set(item.row[this.projection.table.key] as string, Object.freeze(item.row), '');
        else this.fold(item.event, this.keysOf(item.event));
        if (this.final.bytes >= TEXT_BYTES) yield this.final.drain();
      }
      yield* this.rowsInMemory();
    }
    if (this.final.bytes > 0) yield this.final.drain();
  }

  private *rowsInMemory(): Generator<Buffer> {
    let count = 0;
    for (const { row } of this.memory.all()) {
      this.final.add(row);
      if ((count += 1) % ROWS_AT_ONCE === 0) yield this.final.drain();
    }
    if (this.final.bytes > 0) yield this.final.drain();
  }

  async close(): Promise<void> {
    this.memory = new RowMap();
    this.final.drain();
    await this.spill?.close();
  }

  /** A failure ends the whole fold, so it does not matter if a part of the event's changes was applied. */
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

  /** M2: Moves the rows to disk to free their memory. From then on, events that read rows go there too. */
  async spillToDisk(): Promise<void> {
    this.spill = await Spill.open(this.bounds.directory);
    let number = 0;
    for (const { row, partition } of this.memory.all()) {
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
