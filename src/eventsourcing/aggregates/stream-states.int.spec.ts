import { v4 as uuidv4 } from 'uuid';
import { openAggregates, openStore } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { defineEvent, type Decider } from '../event-store/event-definition.ts';
import type { EventStore, ReadStreamOptions } from '../event-store/event-store.ts';

type Counted = { type: 'Counted'; data: { by: number } };

const context = systemContext('test', 'account-1');
const catalogue = new EventCatalogue([defineEvent<Counted['data']>()('Counted', ({ by }) => `Counted ${by}`)]);
const counter: Decider<number, number, Counted> = {
  initialState: () => 0,
  decide: (by) => (by === 0 ? [] : [{ type: 'Counted', data: { by } }]),
  evolve: (sum, { data }) => sum + data.by,
};

describe('The states of streams in a process', () => {
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
  async function another(readStream?: EventStore['readStream'], head?: EventStore['head']) {
    const own = openStore(database, place.url, catalogue);
    others.push(own);
    if (readStream !== undefined) own.readStream = readStream;
    if (head !== undefined) own.head = head;
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

  /** Opens another process, and counts the streams that it reads. */
  async function counted(head?: EventStore['head']) {
    const read: string[] = [];
    const opened = await another((name, options) => {
      read.push(name);
      return store.readStream(name, options);
    }, head);
    return { ...opened, read };
  }

  it('reads a stream that does not exist only once, until an event is appended to it', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates: writer } = await another();
    const { aggregates, follower, read } = await counted();
    for (let n = 0; n < 3; n += 1) expect(await aggregates.load(stream, counter)).toMatchObject({ state: 0, revision: -1 });
    expect(await aggregates.loadForAnonymous('network', stream, counter)).toMatchObject({ revision: -1 });
    expect(await aggregates.load(stream, counter, follower.position)).toMatchObject({ revision: -1 });
    expect(read).toEqual([stream]);
    const { position } = await writer.execute(stream, counter, 1, context);
    expect(await aggregates.load(stream, counter, position)).toMatchObject({ state: 1, revision: 0 });
    await writer.execute(stream, counter, 1, context);
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 2, revision: 1 });
  });

  it('shows a stream to unknown callers as soon as another process has appended to it', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates: writer } = await another();
    const { aggregates, read } = await counted();
    const asked = () => aggregates.loadForAnonymous('network', stream, counter);
    expect([(await asked()).revision, (await asked()).revision]).toEqual([-1, -1]);
    expect(read).toEqual([stream]);
    await writer.execute(stream, counter, 1, context);
    expect(await asked()).toMatchObject({ state: 1, revision: 0 });
  });

  it('shows an absent stream after it has appended to that stream itself', async () => {
    const stream = `counter-${uuidv4()}`;
    const { aggregates } = await counted();
    expect(await aggregates.load(stream, counter)).toMatchObject({ revision: -1 });
    await aggregates.execute(stream, counter, 1, context);
    expect(await aggregates.load(stream, counter)).toMatchObject({ state: 1 });
  });

  it('reads an absent stream again after events were skipped, or the log was restored', async () => {
    const stream = `counter-${uuidv4()}`;
    let restored: string | null = null;
    const { aggregates, follower, read } = await counted(async () => restored ?? (await store.head('core')));
    await aggregates.execute(`counter-${uuidv4()}`, counter, 1, context);
    await follower.catchUpToHead();
    await aggregates.load(stream, counter);
    restored = '0'.repeat(20);
    await aggregates.load(stream, counter);
    restored = null;
    expect(read.filter((name) => name === stream)).toHaveLength(2);
    await follower.onApplicationBootstrap();
    await aggregates.load(stream, counter);
    expect(read.filter((name) => name === stream)).toHaveLength(3);
  });
});
