import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client } from 'pg';

import { eventStoreDbLocation, type EventStoreDbLocation } from '../../test/support/eventstoredb/location.ts';
import { emptyDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import { agentEvents } from '../features/agents/index.ts';
import { readConfig } from '../kernel/config/read-config.ts';
import { openDatabase } from '../postgres/database/open-database.ts';
import { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../eventsourcing/event-store/event-definition.ts';
import { START, type EventStore, type StoredEvent } from '../eventsourcing/event-store/event-store.ts';
import { openEventStore } from '../eventsourcing/event-store.module.ts';
import { migrateStore } from './migrate-store.ts';

const catalogue = new EventCatalogue([defineEvent<JsonObject>()('Happened', () => 'Something happened'), ...Object.values(agentEvents)]);
const actor = { kind: 'api_key' as const, id: 'key', name: 'ci' };
const metadata = { actor, account_id: 'acme', request_id: 'r', causation_id: null, ip: '192.0.2.1' };
const event = (type: string, data: JsonObject) => ({ id: randomUUID(), type, schemaVersion: catalogue.versionOf(type), data, metadata });

let folder: string;
let place: EventStoreDbLocation;
let source: TestDatabase;
let target: TestDatabase;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mooring-migrate-'));
  [place, source, target] = await Promise.all([eventStoreDbLocation(), emptyDatabase(), emptyDatabase()]);
});
afterAll(async () => {
  await place?.close();
  await source?.drop();
  await target?.drop();
  await rm(folder, { recursive: true, force: true });
});

const configOf = (database: TestDatabase) =>
  readConfig({ MOORING_DATA_DIR: folder, DATABASE_URL: database.url, EVENTSTORE_PREFIX: place.prefix });
const migrate = (database: TestDatabase, from: string, to: string) =>
  migrateStore(configOf(database), catalogue, { from, to, allowUnsafe: true });

/** Makes the database look as if no run had finished. */
async function brokenOff(database: TestDatabase): Promise<void> {
  await operate(database, 'delete from installation');
}

async function operate(database: TestDatabase, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) ({ rows } = await client.query(statement));
    return rows;
  } finally {
    await client.end();
  }
}

const placeOf = async (database: TestDatabase) =>
  (await operate(database, `select value from installation where fact = 'log_place'`))[0]?.value;

async function withStore<T>(
  kind: 'postgres' | 'eventstoredb',
  database: TestDatabase,
  work: (store: EventStore) => Promise<T>,
): Promise<T> {
  const opened = await openDatabase({ url: database.url, allowUnsafe: true });
  const settings = { eventStore: kind, eventStoreUrl: place.url, eventStorePrefix: place.prefix };
  try {
    return await work(await openEventStore(settings, opened, catalogue));
  } finally {
    await opened.close();
  }
}

/** Returns the positions of these revisions of one stream. */
function positionsOf(kind: 'postgres' | 'eventstoredb', ...revisions: number[]): Promise<(string | undefined)[]> {
  return withStore(kind, source, async (store) => {
    const positions: string[] = [];
    for await (const { position } of store.readStream('agent-1')) positions.push(position);
    return revisions.map((revision) => positions[revision]);
  });
}

async function everything(store: EventStore): Promise<Omit<StoredEvent, 'position'>[]> {
  const found: Omit<StoredEvent, 'position'>[] = [];
  for (const eventClass of ['core', 'log'] as const)
    for await (const batch of store.readAll(START, { eventClass })) for (const { position: _, ...rest } of batch) found.push(rest);
  return found;
}

/** Writes to several streams in turns, one of them output. */
async function write(store: EventStore, from: number, to: number): Promise<void> {
  for (let revision = from; revision < to; revision += 1)
    for (const stream of ['agent-1', 'agent-2', 'account-1', 'log-1'])
      await store.append(stream, revision === 0 ? 'no_stream' : revision - 1, [event('Happened', { revision, text: 'a\tb\\c\nd é 𝄞 "' })]);
}

describe('A log that moves to another store', () => {
  it('is the same there: events in order, with their ids, revisions, times and causes', async () => {
    await withStore('postgres', source, async (store) => {
      await write(store, 0, 20);
      await store.append('agent-9', 'no_stream', [event('AgentDeletionRequested', {}), event('AgentDeleted', {})]);
    });
    // The events become 400 days old, so that the copy must keep their times.
    await operate(
      source,
      'alter table es_event disable trigger user',
      `update es_event set at = at - interval '400 days'`,
      'alter table es_event enable trigger user',
      `insert into saga_deadlines (saga, key, due_at) values ('a', 'b', now())`,
    );
    const [tenth, eleventh] = await positionsOf('postgres', 10, 11);
    await operate(
      source,
      `insert into subscription_cursors (subscription_id, account_id, position) values ('s', 'acme', '${eleventh}')`,
      `insert into event_deliveries (subscription_id, event_id, position, type, status)
       values ('s', 'waits', '${tenth}', 'Happened', 'pending'), ('s', 'over', '${tenth}', 'Happened', 'delivered')`,
    );

    const figures = await migrate(source, 'postgres', place.url);
    expect(figures).toMatchObject([
      { eventClass: 'core', events: 62, before: 0 },
      { eventClass: 'log', events: 20, before: 0 },
    ]);
    const before = await withStore('postgres', source, everything);
    expect(await withStore('eventstoredb', source, everything)).toEqual(before);
    expect(Date.parse(before[0]?.at as string)).toBeLessThan(Date.now() - 399 * 86_400_000);
    await withStore('eventstoredb', source, async (store) => {
      await expect(store.append('agent-9', 1, [event('Happened', {})])).rejects.toThrow(/closed/);
    });
    const database = await openDatabase({ url: source.url, allowUnsafe: true });
    expect(await database.query('select from saga_deadlines')).toEqual([]);
    const [movedTenth, movedEleventh] = await positionsOf('eventstoredb', 10, 11);
    expect(movedTenth).not.toBe(tenth);
    expect(await database.query('select event_id, position from event_deliveries')).toEqual([{ event_id: 'waits', position: movedTenth }]);
    expect(await database.query('select position from subscription_cursors')).toEqual([{ position: movedEleventh }]);
    await database.close();
  });

  it('is recorded to be there, and can be moved from nowhere else', async () => {
    expect(await placeOf(source)).toBe(`eventstoredb ${place.prefix}`);
    await expect(migrate(source, 'postgres', place.url)).rejects.toThrow(
      /is in EventStoreDB under the prefix .* can't be moved from PostgreSQL/,
    );
  });

  it('continues where a run was interrupted', async () => {
    await brokenOff(source);
    await withStore('postgres', source, (store) => write(store, 20, 25));
    expect(await migrate(source, 'postgres', place.url)).toMatchObject([
      { eventClass: 'core', events: 77, before: 62 },
      { eventClass: 'log', events: 25, before: 20 },
    ]);
  });

  it('moves back, identical to the last byte', async () => {
    const there = await migrate(target, place.url, 'postgres');
    expect(await placeOf(target)).toBe('postgres');
    await brokenOff(target);
    const again = await migrate(target, place.url, 'postgres');
    expect(again.map(({ sha256 }) => sha256)).toEqual(there.map(({ sha256 }) => sha256));
    expect(again.map(({ before, events }) => before - events)).toEqual([0, 0]);
    const rows = async (database: TestDatabase) => {
      const opened = await openDatabase({ url: database.url, allowUnsafe: true });
      const found = await opened.query('select *, data::text, metadata::text from es_event order by position');
      await opened.close();
      return found;
    };
    expect(await rows(target)).toEqual(await rows(source));
    await withStore('postgres', target, (store) => store.append('agent-1', 24, [event('Happened', {})]));
  });

  it('replaces older output when it moves back', async () => {
    await brokenOff(source);
    // This makes it look as if retention had removed output from the moved log since it was copied from here.
    await operate(
      source,
      'alter table es_log_event disable trigger user',
      `update es_log_event set data = '{"revision": -1, "text": "older"}' where version = 0`,
      'alter table es_log_event enable trigger user',
    );
    expect(await migrate(source, place.url, 'postgres')).toMatchObject([
      { eventClass: 'core', events: 77, before: 77 },
      { eventClass: 'log', events: 25, before: 0 },
    ]);
    expect(await withStore('postgres', source, everything)).toEqual(await withStore('eventstoredb', source, everything));
  });

  it('refuses a target with other content, and writes nothing', async () => {
    for (const database of [source, target]) await brokenOff(database);
    // The target's output does not fit either, so it would be replaced if the core events had not been checked before.
    await withStore('postgres', target, (store) => store.append('log-1', 24, [event('Happened', { other: true })]));
    const before = await withStore('postgres', target, everything);
    await expect(migrate(target, place.url, 'postgres')).rejects.toThrow(/holds more than the source: event .* on agent-1/);
    await withStore('postgres', source, (store) => store.append('agent-2', 24, [event('Happened', { other: true })]));
    await expect(migrate(target, source.url, 'postgres')).rejects.toThrow(/the target holds another log: event .*agent-1 25/);
    expect(await withStore('postgres', target, everything)).toEqual(before);
    await expect(migrate(target, 'postgres', 'postgres')).rejects.toThrow(/name the same store/);
  });

  it('refuses an EventStoreDB whose output does not fit, and writes nothing, though its other events do', async () => {
    // The target's core events are now the beginning of the source's, but its output has an event that the source lacks.
    await withStore('eventstoredb', source, (store) => store.append('log-1', 24, [event('Happened', { other: true })]));
    const before = await withStore('eventstoredb', source, everything);
    await brokenOff(source);
    await expect(migrate(source, 'postgres', place.url)).rejects.toThrow(/holds more than the source: event .* on log-1/);
    expect(await withStore('eventstoredb', source, everything)).toEqual(before);
    expect(await placeOf(source)).toBe(undefined);
  });
});
