import { v4 as uuidv4 } from 'uuid';
import { openAggregates, openStore } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { openDatabase, type Database } from '../../database/database.ts';
import { systemContext } from '../../context/command-context.ts';
import { EventCatalogue } from '../event-catalogue.ts';
import { defineEvent, type Decider } from '../event-definition.ts';
import type { EventStore, ReadStreamOptions } from '../event-store.ts';

type Counted = { type: 'Counted'; data: { by: number } };

const context = systemContext('test', 'account-1');
const catalogue = new EventCatalogue([defineEvent<Counted['data']>()('Counted', ({ by }) => `Counted ${by}`)]);
const counter: Decider<number, number, Counted> = {
  initialState: () => 0,
  decide: (by) => (by === 0 ? [] : [{ type: 'Counted', data: { by } }]),
  evolve: (sum, { data }) => sum + data.by,
};

describe('What a process knows of streams', () => {
  let place: TestDatabase;
  let database: Database;
  let store: EventStore;
  const others: EventStore[] = [];

  beforeAll(async () => {
    place = await freshDatabase();
    database = await openDatabase({ url: place.url, allowUnsafe: true });
    store = openStore(database, place.url, catalogue);
  });
  afterAll(async () => {
    for (const other of [...others, store]) await other.close();
    await database.close();
    await place.drop();
  });

  /** Opens another process, whose reads of streams the test may replace. */
  async function another(readStream?: EventStore['readStream']) {
    const own = openStore(database, place.url, catalogue);
    others.push(own);
    if (readStream !== undefined) own.readStream = readStream;
    const opened = openAggregates(database, own, catalogue);
    await opened.follower.onApplicationBootstrap();
    return opened;
  }

  it('reads again if a node of the store lacks an event that was received before', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates: writer } = await another();
    let lagging = 2;
    const { aggregates, follower } = await another(async function* (name: string, options?: ReadStreamOptions) {
      const isLagging = name === stream && lagging > 0;
      if (isLagging) lagging -= 1;
      for await (const event of store.readStream(name, options)) if (!isLagging || event.revision === 0) yield event;
    });
    await writer.execute(stream, counter, 1, context);
    await writer.execute(stream, counter, 1, context);
    await follower.catchUpToHead();
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 2, revision: 1 });
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 2, revision: 1 });
    expect(lagging).toBe(0);
  });

  it('does not keep the state from a node that keeps lagging', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates: writer } = await another();
    let isLagging = true;
    const { aggregates, follower } = await another(async function* (name: string, options?: ReadStreamOptions) {
      for await (const event of store.readStream(name, options)) if (!isLagging || event.revision === 0) yield event;
    });
    await writer.execute(stream, counter, 1, context);
    await writer.execute(stream, counter, 1, context);
    await follower.catchUpToHead();
    expect(await aggregates.load(stream, counter)).toMatchObject({ revision: 0 });
    isLagging = false;
    expect(await aggregates.load(stream, counter)).toMatchObject({ revision: 1 });
  });

  it('drops its states when events were skipped', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates: writer } = await another();
    const { aggregates, follower } = await another();
    await writer.execute(stream, counter, 1, context);
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 1 });
    await follower.beforeApplicationShutdown();
    await writer.execute(stream, counter, 1, context);
    // The follower begins again at the log's end, after that event.
    const again = follower as unknown as { stopping: AbortController };
    again.stopping = new AbortController();
    await follower.onApplicationBootstrap();
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 2 });
  });

  it('starts again if the log was restored, and another event has the place of the last known one', async () => {
    const stream = `counter-${uuidv4()}`;
    let isPutBack = false;
    const { aggregates, states } = await another(async function* (name: string, options?: ReadStreamOptions) {
      for await (const event of store.readStream(name, options))
        yield isPutBack && event.revision === 1 ? { ...event, id: uuidv4(), data: { by: 5 } } : event;
    });
    await aggregates.execute(stream, counter, 1, context);
    await aggregates.execute(stream, counter, 2, context);
    isPutBack = true;
    expect(await states.read(stream, counter)).toMatchObject({ state: 6, revision: 1 });
  });
});
