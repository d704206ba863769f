import { retry } from '../kernel/async/retry.ts';
import { copyIn } from '../postgres/database/copy.ts';
import { addressOf, connectOwner } from '../postgres/database/migrate.ts';
import {
  EventStoreUnavailable,
  OutcomeUnknown,
  type EventClass,
  type EventMetadata,
  type EventStore,
  type NewEvent,
  type StoredEvent,
} from '../eventsourcing/event-store/event-store.ts';
import { storedJson } from '../eventsourcing/event-store/stored-json.ts';

/** Appends events to a log, with their ids, revisions and times. May be repeated after a failure. */
export type LogWriter = (events: StoredEvent[], eventClass: EventClass) => Promise<void>;

/** The largest append: the number of events, and of bytes of data and metadata. */
const APPEND_EVENTS = 500;
const APPEND_BYTES = 900 * 1024;
const ATTEMPTS_MAX = 8;
const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 12_800;

/** Returns a writer that uses the port. The time is part of the metadata, where the adapter expects it. */
export function portWriter(store: EventStore): LogWriter {
  return async (events) => {
    for (const run of runs(events)) await append(store, run);
  };
}

/** Groups neighbouring events of one stream, as many as an append may have. */
function* runs(events: StoredEvent[]): Generator<StoredEvent[]> {
  let run: StoredEvent[] = [];
  let bytes = 0;
  for (const event of events) {
    const size = Buffer.byteLength(JSON.stringify([event.data, event.metadata]));
    const fits = run.length < APPEND_EVENTS && bytes + size <= APPEND_BYTES;
    if (run.length > 0 && (!fits || run[0]?.stream !== event.stream)) {
      yield run;
      run = [];
      bytes = 0;
    }
    run.push(event);
    bytes += size;
  }
  if (run.length > 0) yield run;
}

async function append(store: EventStore, run: StoredEvent[]): Promise<void> {
  const { stream, revision } = run[0] as StoredEvent;
  const events: NewEvent[] = run.map(({ id, type, schemaVersion, data, metadata, at }) => ({
    id,
    type,
    schemaVersion,
    data,
    metadata: { ...metadata, recorded_at: at } as EventMetadata,
  }));
  await retry(() => store.append(stream, revision === 0 ? 'no_stream' : revision - 1, events), {
    firstMs: FIRST_RETRY_MS,
    lastMs: LAST_RETRY_MS,
    attempts: ATTEMPTS_MAX,
    mayPass: (error) => error instanceof OutcomeUnknown || error instanceof EventStoreUnavailable,
  });
}

/**
 * Returns a writer that inserts rows as the owner. It bypasses the log's functions, which would stamp the current time. Each call is one
 * transaction.
 */
export function postgresWriter(url: string): LogWriter {
  return async (events, eventClass) => {
    const table = eventClass === 'core' ? 'public.es_event' : 'public.es_log_event';
    const owner = await connectOwner(addressOf(url));
    try {
      await owner.query('begin');
      await owner.query('select pg_advisory_xact_lock(5040, $1)', [eventClass === 'core' ? 1 : 2]);
      const { rows } = await owner.query<{ head: string }>(`select coalesce(max(position), 0) as head from ${table}`);
      const lines = linesOf(events, Number(rows[0]?.head ?? 0));
      await copyIn(
        owner,
        `copy ${table} (position, stream, version, id, type, schema_version, data, metadata, size, at) from stdin`,
        lines,
      );
      await owner.query('commit');
    } finally {
      await owner.end();
    }
  };
}

async function* linesOf(events: StoredEvent[], head: number): AsyncGenerator<Buffer> {
  for (const [index, { stream, revision, id, type, schemaVersion, data, metadata, at }] of events.entries()) {
    const texts = [storedJson(data), storedJson({ ...metadata, actor: { ...metadata.actor } })];
    const size = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    const values = [head + 1 + index, stream, revision, id, type, schemaVersion, ...texts, size, at];
    yield Buffer.from(`${values.map((value) => escaped(String(value))).join('\t')}\n`);
  }
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n').replaceAll('\r', '\\r');
}
