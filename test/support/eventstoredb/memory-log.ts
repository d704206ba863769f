/** An event as a client sends it: JSON texts as bytes. */
export interface Proposed {
  id: string;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
}

export interface LogRecord extends Proposed {
  stream: string;
  revision: number;
  position: bigint;
  /** The time of the append, in ms since 1970. */
  created: number;
}

export type Expected = number | 'any' | 'no_stream' | 'stream_exists';

export type AppendAnswer =
  | { kind: 'written'; revision: number; position: bigint | null }
  /** The value of `actual` is -1 if there is no such stream. */
  | { kind: 'wrong_version'; actual: number }
  | { kind: 'too_big' }
  | { kind: 'deleted' };

const maxAppendBytes = 1024 * 1024;
/** The number of latest event ids with which an append with `any` is compared. */
const maxRecent = 70_000;

interface Settings {
  $maxCount?: number;
  $maxAge?: number;
  $tb?: number;
}

/** The log of an EventStoreDB 23.10 as it was observed, in memory; several servers may share one. */
export class MemoryLog {
  records: LogRecord[] = [];
  private readonly streams = new Map<string, LogRecord[]>();
  private readonly revisions = new Map<string, number>();
  private readonly settings = new Map<string, Settings>();
  private readonly tombstones = new Set<string>();
  private readonly recent = new Map<string, LogRecord>();
  private readonly listeners = new Set<(written: LogRecord[]) => void>();
  /** The position of the next record; the first record of a real server is its own. */
  private next = 733n;

  /** Returns the position after the last record. */
  get end(): bigint {
    return this.next;
  }

  onWritten(listener: (written: LogRecord[]) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /**
   * Returns the revision of the stream's last event, visible or not; -1 if there is none. With `until`, the log is read as it was at that
   * position.
   */
  last(stream: string, until?: bigint): number {
    if (until === undefined) return this.revisions.get(stream) ?? -1;
    return this.streams.get(stream)?.findLast(({ position }) => position < until)?.revision ?? -1;
  }

  isTombstoned(stream: string): boolean {
    return this.tombstones.has(stream);
  }

  tombstone(stream: string): void {
    this.tombstones.add(stream);
  }

  append(stream: string, expected: Expected, events: Proposed[]): AppendAnswer {
    if (this.tombstones.has(stream)) return { kind: 'deleted' };
    if (events.reduce((sum, { data }) => sum + data.length, 0) > maxAppendBytes) return { kind: 'too_big' };
    const last = this.last(stream);
    if (expected === 'any' || (expected === 'stream_exists' && last >= 0)) {
      const known = this.recent.get(events[0]?.id ?? '');
      if (known?.stream === stream) return this.original(stream, known.revision - 1, events);
      return this.write(stream, events);
    }
    if (expected === 'stream_exists') return { kind: 'wrong_version', actual: last };
    const revision = expected === 'no_stream' ? -1 : expected;
    if (revision === last) return this.write(stream, events);
    if (revision > last) return { kind: 'wrong_version', actual: last };
    const there = this.all(stream).filter((event) => event.revision > revision && event.revision <= revision + events.length);
    const same = there.length === events.length && there.every(({ id }, index) => id === events[index]?.id);
    return same ? this.original(stream, revision, events) : { kind: 'wrong_version', actual: last };
  }

  /** Returns the events of the stream that a reader sees, in order; null if there is no such stream. */
  visible(stream: string, until?: bigint): LogRecord[] | null {
    if (this.last(stream, until) < 0) return null;
    return this.all(stream).filter((record) => this.isVisible(record) && (until === undefined || record.position < until));
  }

  /** Deletes the events that readers of streams no longer see, except each stream's last event. */
  scavenge(): void {
    const kept = (record: LogRecord) => this.isVisible(record) || record.revision === this.last(record.stream);
    this.records = this.records.filter(kept);
    for (const [stream, events] of this.streams) this.streams.set(stream, events.filter(kept));
  }

  private isVisible({ stream, revision, created }: LogRecord): boolean {
    const { $maxCount, $maxAge, $tb } = this.settings.get(stream) ?? {};
    if ($maxCount !== undefined && revision <= this.last(stream) - $maxCount) return false;
    if ($maxAge !== undefined && created < Date.now() - $maxAge * 1000) return false;
    return $tb === undefined || revision >= $tb;
  }

  private all(stream: string): LogRecord[] {
    return this.streams.get(stream) ?? [];
  }

  private original(stream: string, revision: number, events: Proposed[]): AppendAnswer {
    const last = this.all(stream).find((record) => record.revision === revision + events.length);
    const seen = last !== undefined && this.isVisible(last);
    return { kind: 'written', revision: revision + events.length, position: seen ? last.position : null };
  }

  private write(stream: string, events: Proposed[]): AppendAnswer {
    const written = events.map((event) => this.record(stream, event));
    for (const listener of this.listeners) listener(written);
    return { kind: 'written', revision: this.last(stream), position: written.at(-1)?.position ?? null };
  }

  private record(stream: string, event: Proposed): LogRecord {
    const record = { ...event, stream, revision: this.last(stream) + 1, position: this.next, created: Date.now() };
    this.next += BigInt(100 + stream.length + event.type.length + event.data.length + event.metadata.length);
    this.records.push(record);
    this.streams.set(stream, this.all(stream));
    this.all(stream).push(record);
    this.revisions.set(stream, record.revision);
    this.recent.set(event.id, record);
    const [oldest] = this.recent.keys();
    if (this.recent.size > maxRecent && oldest !== undefined) this.recent.delete(oldest);
    if (stream.startsWith('$$')) this.settings.set(stream.slice(2), JSON.parse(Buffer.from(event.data).toString()) as Settings);
    return record;
  }

  /** Deletes the state that a restart loses. */
  restarted(): void {
    this.recent.clear();
  }
}
