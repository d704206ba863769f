/**
 * Copies the log of one event store into another, and compares both.
 *
 * Owns: the order of steps, and the record of the log's place in the database. Does not own the stores or their formats (`LogWriter`).
 *
 * M1  Nothing is written before everything was checked: the log is in the source, and the target holds nothing but the beginning of it.
 * M2  It may be interrupted at any step and repeated: events that the target already has are skipped.
 * M3  The database records the new place only after both logs were compared event by event; read models and cursors of subscriptions change
 *     in the same transaction.
 * M4  No service runs meanwhile, and no trim removes output.
 */
import { createHash } from 'node:crypto';

import type { Config } from '../kernel/config/config.ts';
import { RETENTION } from '../features/logs/index.ts';
import type { Database } from '../postgres/database/database.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { addressOf, connectOwner } from '../postgres/database/migrate.ts';
import { Installation } from '../postgres/database/installation.ts';
import { holdPostgres } from '../postgres/embedded/reach-postgres.ts';
import type { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import { openEventStore } from '../eventsourcing/event-store.module.ts';
import { logLocation, describeLocation, type EventStoreLocation } from '../eventsourcing/event-store/log-location.ts';
import { START, type EventClass, type EventStore, type Position, type StoredEvent } from '../eventsourcing/event-store/event-store.ts';
import { removeReadModels } from './fill-tables.ts';
import { moveCursors, movedPositions } from './move-cursors.ts';
import { portWriter, postgresWriter, type LogWriter } from './log-writers.ts';
import { assertNoOtherConnections } from './restore.ts';
import { endings } from './sandbox-ends.ts';

/** The number of events that are written together. */
const BATCH = 5_000;

export interface MigrationOptions {
  /** The source: `postgres` (the service's own database), a `postgres://…`, or a connection string of EventStoreDB. */
  from: string;
  to: string;
  /** The value is true to open a PostgreSQL that does not force commits to disk, for tests only. */
  allowUnsafe?: boolean;
}

/** The figures of one class of events, which are equal in both logs after a successful migration. */
export interface ClassFigures {
  eventClass: EventClass;
  events: number;
  /** The number of those events that were in the target already. */
  before: number;
  sha256: string;
}

type Owner = Awaited<ReturnType<typeof connectOwner>>;

interface LogEndpoint {
  store: EventStore;
  writer: LogWriter;
  /** The place as the database records it; null for another database, which is not the service's. */
  place: string | null;
  /** The URL of the PostgreSQL that holds the log; null if no PostgreSQL does. */
  url: string | null;
  /** The value is true for EventStoreDB, which counts a trimmed stream from 0 again. */
  renumbers: boolean;
}

/**
 * Moves the log. Throws before anything is written if M1 does not hold, and also if the logs differ in the end. Output in a target
 * PostgreSQL of which retention has removed some in the source since is replaced by the source's.
 */
export async function migrateStore(config: Config, catalogue: EventCatalogue, options: MigrationOptions): Promise<ClassFigures[]> {
  if (options.from === options.to) throw new Error('--from and --to name the same store');
  const server = await holdPostgres(config);
  const databases = new Map<string, Promise<Database>>();
  const databaseAt = (url: string) => {
    const opened = databases.get(url) ?? openDatabase({ url, allowUnsafe: options.allowUnsafe ?? false });
    databases.set(url, opened);
    return opened;
  };
  const sideAt = (place: string) => openEndpoint(place, { config, ownUrl: server.url, catalogue, databaseAt });
  try {
    await withOwner(server.url, assertNoOtherConnections);
    const [source, target] = [await sideAt(options.from), await sideAt(options.to)];
    await refuseOldLog(source, await databaseAt(server.url));
    const core = await comparePrefix(source, target, 'core');
    if (!core.isBeginning) throw new Error(core.why);
    let log = await comparePrefix(source, target, 'log');
    if (!log.isBeginning && target.url === null) throw new Error(log.why);
    // M1: Everything was checked, and from here on events are written.
    if (!log.isBeginning) {
      await withOwner(target.url ?? '', removeOutput);
      log = { isBeginning: true, events: 0 };
    }
    const figures: ClassFigures[] = [];
    for (const [eventClass, { events }] of [
      ['core', core],
      ['log', log],
    ] as const) {
      await copy(source, target, eventClass, events);
      figures.push({ eventClass, before: events, ...(await compare(source, target, eventClass)) });
    }
    await restoreStreamSettings(target.store);
    await withOwner(server.url, async (owner) => moveIn(owner, target.place, await movedPositions(owner, source.store, target.store)));
    return figures;
  } finally {
    for (const database of databases.values()) await database.then((opened) => opened.close()).catch(() => undefined);
    await server.release();
  }
}

/** M1: Refuses a source that is not the log's current place, because events that were written elsewhere since would be missing. */
async function refuseOldLog({ place }: LogEndpoint, own: Database): Promise<void> {
  const standing = await new Installation(own).read('log_place');
  if (place === null || standing === null || standing === place) return;
  throw new Error(`the log of this database is in ${describeLocation(standing)}, so it can't be moved from ${describeLocation(place)}`);
}

/** M3: Records the log's new place, removes the read models, which are rebuilt from it, and moves the cursors of subscriptions. */
async function moveIn(owner: Owner, place: string | null, positions: ReadonlyMap<Position, Position>): Promise<void> {
  await owner.query('begin');
  await removeReadModels(owner);
  await moveCursors(owner, positions);
  if (place !== null)
    await owner.query(
      `insert into installation (fact, value) values ('log_place', $1) on conflict (fact) do update set value = excluded.value`,
      [place],
    );
  await owner.query('commit');
}

async function removeOutput(owner: Owner): Promise<void> {
  await owner.query('begin');
  await owner.query('alter table public.es_log_event disable trigger user');
  await owner.query('truncate public.es_log_event');
  await owner.query('alter table public.es_log_event enable trigger user');
  await owner.query('commit');
}

interface EndpointOptions {
  config: Config;
  ownUrl: string;
  catalogue: EventCatalogue;
  databaseAt: (url: string) => Promise<Database>;
}

async function openEndpoint(place: string, { config, ownUrl, catalogue, databaseAt }: EndpointOptions): Promise<LogEndpoint> {
  const isPostgres = /^postgres(ql:|:|$)/.test(place);
  const url = isPostgres && place !== 'postgres' ? place : ownUrl;
  const database = await databaseAt(url);
  const eventStore: EventStoreLocation = isPostgres
    ? { eventStore: 'postgres', eventStoreUrl: null, eventStorePrefix: null }
    : { eventStore: 'eventstoredb', eventStoreUrl: place, eventStorePrefix: config.eventStorePrefix };
  const store = await openEventStore(eventStore, database, catalogue);
  if (isPostgres) await holdTrimming(database);
  return {
    store,
    writer: isPostgres ? postgresWriter(url) : portWriter(store),
    place: isPostgres && place !== 'postgres' ? null : logLocation(eventStore),
    url: isPostgres ? url : null,
    renumbers: !isPostgres,
  };
}

/** M4: Prevents trimming while the log is copied: a trim that finds this lock held does nothing. */
async function holdTrimming(database: Database): Promise<void> {
  const client = await database.openPool('copy', 1).connect();
  await client.query('select pg_advisory_lock(5040, 3)');
  database.beforeClose(() => Promise.resolve(client.release(true)));
}

async function withOwner(url: string, work: (owner: Owner) => Promise<void>): Promise<void> {
  const owner = await connectOwner(addressOf(url));
  try {
    await work(owner);
  } finally {
    await owner.end();
  }
}

/** The comparison of the target's events with the source's: either they are its first `events` events, or `why` is the reason. */
type PrefixComparison = { isBeginning: true; events: number } | { isBeginning: false; why: string; events: 0 };

async function comparePrefix(source: LogEndpoint, target: LogEndpoint, eventClass: EventClass): Promise<PrefixComparison> {
  const wanted = wantedEvents(source, target, eventClass);
  let events = 0;
  for await (const standing of eventsOf(target.store, eventClass)) {
    const next = await wanted.next();
    const no = (why: string) => ({ isBeginning: false as const, why, events: 0 as const });
    if (next.done === true) return no(`the target holds more than the source: event ${standing.id} on ${standing.stream}`);
    if (canonical(standing) !== canonical(next.value)) {
      const { id, stream, revision } = standing;
      return no(`the target holds another log: event ${id} (${stream} ${revision}) differs from the source's event at that place`);
    }
    events += 1;
  }
  return { isBeginning: true, events };
}

/** Writes the source's events that follow the first `after` events. */
async function copy(source: LogEndpoint, target: LogEndpoint, eventClass: EventClass, after: number): Promise<void> {
  let passed = 0;
  let batch: StoredEvent[] = [];
  for await (const event of wantedEvents(source, target, eventClass)) {
    passed += 1;
    if (passed <= after) continue;
    batch.push(event);
    if (batch.length < BATCH) continue;
    await target.writer(batch, eventClass);
    batch = [];
  }
  if (batch.length > 0) await target.writer(batch, eventClass);
}

/** Yields the source's events with the revisions that the target gives them. */
async function* wantedEvents(source: LogEndpoint, target: LogEndpoint, eventClass: EventClass): AsyncGenerator<StoredEvent> {
  const renumber = target.renumbers && eventClass === 'log' ? renumbering() : (event: StoredEvent) => event;
  for await (const event of eventsOf(source.store, eventClass)) yield renumber(event);
}

async function compare(source: LogEndpoint, target: LogEndpoint, eventClass: EventClass): Promise<{ events: number; sha256: string }> {
  const renumbers = eventClass === 'log' && (source.renumbers || target.renumbers);
  const [there, here] = [await figuresOf(source.store, eventClass, renumbers), await figuresOf(target.store, eventClass, renumbers)];
  if (there.events !== here.events || there.sha256 !== here.sha256)
    throw new Error(
      `the logs differ (${eventClass}): ${there.events} events, ${there.sha256} in the source; ${here.events}, ${here.sha256} in the target`,
    );
  return here;
}

async function figuresOf(store: EventStore, eventClass: EventClass, renumbers: boolean): Promise<{ events: number; sha256: string }> {
  const hash = createHash('sha256');
  const renumber = renumbers ? renumbering() : (event: StoredEvent) => event;
  let events = 0;
  for await (const event of eventsOf(store, eventClass)) {
    hash.update(canonical(renumber(event))).update('\n');
    events += 1;
  }
  return { events, sha256: hash.digest('hex') };
}

async function* eventsOf(store: EventStore, eventClass: EventClass): AsyncGenerator<StoredEvent> {
  for await (const batch of store.readAll(START, { eventClass })) yield* batch;
}

/** Returns an event as text, without its position, which differs between stores. */
function canonical({ id, type, schemaVersion, stream, revision, at, data, metadata }: StoredEvent): string {
  const { actor, account_id, request_id, causation_id, ip, ...others } = metadata;
  const known = [actor.kind, actor.id, actor.name, account_id, request_id, causation_id, ip];
  return JSON.stringify([id, type, schemaVersion, stream, revision, at, data, known, others]);
}

/** Returns a function that gives the events of each stream the revisions 0, 1, 2 … */
function renumbering(): (event: StoredEvent) => StoredEvent {
  const revisions = new Map<string, number>();
  return (event) => {
    const revision = (revisions.get(event.stream) ?? -1) + 1;
    revisions.set(event.stream, revision);
    return { ...event, revision };
  };
}

/** Closes the streams of deleted sandboxes and sets the retention of output, which the port can't read from the source. */
async function restoreStreamSettings(store: EventStore): Promise<void> {
  for await (const batch of store.readAll(START, { eventClass: 'core', ...endings }))
    for (const { stream, revision } of batch) await store.closeStream(stream, revision);
  const logs = new Set<string>();
  for await (const { stream } of eventsOf(store, 'log')) logs.add(stream);
  for (const stream of logs) await store.setRetention(stream, RETENTION);
}
