import { Logger } from '@nestjs/common';
import fc from 'fast-check';
import { v4 as uuidv4, v5 as uuidv5 } from 'uuid';
import { openAggregates, openStore } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { defineEvent, type Decider } from '../event-store/event-definition.ts';
import { idOf, type EventStore, type StoredEvent } from '../event-store/event-store.ts';
import { absentState, applyEvents, type StreamState } from './stream-state.ts';

interface Tally {
  sum: number;
  last: number[];
}
type Counted = { type: 'Counted'; data: { by: number } };

const NAMESPACE = '1c1f2d1a-1a53-4f7c-9d5e-8a8f1f2d3c44';
const context = systemContext('test', 'account-1');
const catalogue = new EventCatalogue([defineEvent<Counted['data']>()('Counted', ({ by }) => `Counted ${by}`)]);

const tally: Decider<Tally, number, Counted> = {
  initialState: () => ({ sum: 0, last: [] }),
  decide: (by) => [{ type: 'Counted', data: { by } }],
  evolve: ({ sum, last }, { data }) => ({ sum: sum + data.by, last: [...last, data.by].slice(-3) }),
  snapshot: { name: 'tally', version: 2, subject: (_, id) => id },
};

describe('Snapshots of long streams', () => {
  let place: TestDatabase;
  let database: Database;
  let store: EventStore;
  const opened = () => openAggregates(database, store, catalogue);

  beforeAll(async () => {
    place = await freshDatabase();
    database = await openDatabase({ url: place.url, allowUnsafe: true });
    store = openStore(database, place.url, catalogue);
  });
  afterEach(() => jest.restoreAllMocks());
  afterAll(async () => {
    await store.close();
    await database.close();
    await place.drop();
  });

  /** Appends that many events to a new stream. */
  async function streamOf(count: number, eventId = () => uuidv4()): Promise<{ stream: string; events: StoredEvent[] }> {
    const stream = `tally-${uuidv4()}`;
    const events: StoredEvent[] = [];
    const metadata = { actor: context.actor, account_id: 'account-1', request_id: null, causation_id: null, ip: null };
    while (events.length < count) {
      const batch = Array.from({ length: Math.min(500, count - events.length) }, (_, index) => ({
        id: eventId(),
        type: 'Counted',
        schemaVersion: 1,
        data: { by: (events.length + index) % 7 },
        metadata,
      }));
      events.push(...(await store.append(stream, events.length === 0 ? 'no_stream' : events.length - 1, batch)).events);
    }
    return { stream, events };
  }

  const foldedTo = (events: StoredEvent[]): StreamState<Tally> => applyEvents(tally, absentState(tally), events);
  const kept = (stream: string) =>
    database.query<{ revision: string; version: number; state: Tally; subject: string }>(
      'select revision, version, state, subject from aggregate_snapshots where stream = $1',
      [stream],
    );

  it('give the same state as all events, whatever their place, version and log', async () => {
    const found = fc.record({
      /** The revision of the snapshot, as a percentage of the stream's length. */
      at: fc.nat(100),
      version: fc.constantFrom(1, 2, 3),
      /** The number of events that the log has lost since. */
      lost: fc.constantFrom(0, 0, 0, 3, 800),
      isOfAnotherPast: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 150, max: 1_400 }), fc.array(found, { minLength: 1, maxLength: 3 }), async (length, snapshots) => {
        const { stream, events } = await streamOf(length);
        const { snapshots: cache } = opened();
        for (const { at, version, lost, isOfAnotherPast } of snapshots) {
          const before = foldedTo(events.slice(0, Math.ceil((at * length) / 100)));
          // A snapshot that does not match the stream's events must never be used.
          const isTrue = version === 2 && lost === 0 && !isOfAnotherPast;
          const state = isTrue ? before : { ...before, state: { sum: -1, last: [-1] } };
          const revision = state.revision + lost;
          const eventId = isOfAnotherPast || lost > 0 || state.revision < 0 ? uuidv4() : state.eventId;
          cache.schedule(stream, { name: 'tally', version }, { ...state, revision, eventId });
          await cache.settle();
        }
        const { state, createdAt, changedAt, revision, position } = foldedTo(events);
        expect(await opened().aggregates.load(stream, tally)).toEqual({ state, createdAt, changedAt, revision, position });
      }),
      { numRuns: 60 },
    );
  });

  it('are written after a long load, and refreshed as the stream grows', async () => {
    const { stream, events } = await streamOf(700);
    const { aggregates, snapshots } = opened();
    await aggregates.load(stream, tally);
    await snapshots.settle();
    expect(await kept(stream)).toEqual([{ revision: '699', version: 2, state: foldedTo(events).state, subject: idOf(stream) }]);
    for (let count = 0; count < 499; count += 1) await aggregates.execute(stream, tally, 1, context);
    await snapshots.settle();
    expect(await kept(stream)).toMatchObject([{ revision: '699' }]);
    await aggregates.execute(stream, tally, 1, context);
    await snapshots.settle();
    expect(await kept(stream)).toMatchObject([{ revision: '1199' }]);
  });

  it('save a cold load from reading the events before them', async () => {
    const { stream } = await streamOf(3_000);
    const first = opened();
    await first.aggregates.load(stream, tally);
    await first.snapshots.settle();
    let events = 0;
    const inBulk = jest.spyOn(store, 'readStreamInBulk');
    const read = store.readStream.bind(store);
    jest.spyOn(store, 'readStream').mockImplementation(async function* (...asked) {
      for await (const event of read(...asked)) {
        events += 1;
        yield event;
      }
    });
    expect(await opened().aggregates.load(stream, tally)).toMatchObject({ revision: 2_999 });
    expect(events).toBeLessThanOrEqual(201);
    expect(inBulk).not.toHaveBeenCalled();
  });

  it('include the ids of records, so that a repeat after a restart adds no second event', async () => {
    const id = uuidv5('a record', NAMESPACE);
    const ids = [id];
    const { stream } = await streamOf(600, () => ids.pop() ?? uuidv4());
    const { aggregates, snapshots } = opened();
    await aggregates.load(stream, tally);
    await snapshots.settle();
    expect(await kept(stream)).toMatchObject([{ revision: '599' }]);
    expect(await opened().aggregates.execute(stream, tally, 1, context, { eventId: () => id })).toMatchObject({
      revision: 599,
      events: [],
    });
  });

  it('are removed with the data key of their subject, and none is written after that', async () => {
    const { stream } = await streamOf(600);
    const { aggregates, snapshots } = opened();
    await aggregates.load(stream, tally);
    await snapshots.settle();
    expect(await kept(stream)).toHaveLength(1);
    await database.query(`insert into data_keys (subject, version, kek_id, wrapped, shredded_at) values ($1, 1, 'k', null, now())`, [
      idOf(stream),
    ]);
    await aggregates.removeSnapshotsOf(idOf(stream));
    expect(await kept(stream)).toEqual([]);
    const later = opened();
    await later.aggregates.load(stream, tally);
    await later.snapshots.settle();
    expect(await kept(stream)).toEqual([]);
  });

  it('only cost time if they can be neither read nor written', async () => {
    const { stream, events } = await streamOf(600);
    const { aggregates, snapshots } = opened();
    const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    jest.spyOn(database, 'query').mockRejectedValue(new Error('canceling statement due to statement timeout'));
    expect(await aggregates.load(stream, tally)).toMatchObject({ state: foldedTo(events).state, revision: 599 });
    await snapshots.settle();
    expect(warned.mock.calls.filter(([line]) => /snapshot/i.test(String(line)))).toHaveLength(2);
  });
});
