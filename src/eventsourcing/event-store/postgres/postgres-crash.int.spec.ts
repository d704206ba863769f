import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { contractCatalogue, core, everything, newEvent, newEvents, until } from '../../../../test/support/event-store-contract.ts';
import { removeDataDir } from '../../../../test/support/data-dir.ts';
import { TcpProxy } from '../../../../test/support/tcp-proxy.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { openDatabase } from '../../../postgres/database/open-database.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../../postgres/embedded/embedded-postgres.ts';
import { EventStoreUnavailable, OutcomeUnknown, START, type AppendResult, type NewEvent, type StoredEvent } from '../event-store.ts';
import { PostgresEventStore } from './postgres-event-store.ts';
import { untilTrue } from '../../../../test/support/until.ts';

describe('Events in a PostgreSQL that crashes', () => {
  let dataDir: string;
  let server: EmbeddedPostgres;
  let proxy: TcpProxy;
  let database: Database;
  let store: PostgresEventStore;

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'mooring-crash-'));
    await chmod(dataDir, 0o711);
    proxy = await TcpProxy.start();
    await startServer();
    // Commits are forced to disk here: the unsafe mode is not used.
    database = await openDatabase({ url: proxy.through(server.url) });
    store = new PostgresEventStore(database, contractCatalogue);
  });

  afterAll(async () => {
    await store.close();
    await database.close();
    await proxy.close();
    await server.stop();
    await removeDataDir(dataDir);
  });

  async function startServer(): Promise<void> {
    server = await startEmbeddedPostgres({ dataDir });
    proxy.target = Number(new URL(server.url).port);
  }

  async function killServer(): Promise<void> {
    process.kill(server.pid, 'SIGKILL');
    // The server has ended; this releases the data directory.
    await server.stop();
  }

  /** Repeats the call with the same ids until it succeeds, as `Aggregates` does. */
  async function appendSurely(stream: string, revision: number, events: NewEvent[]): Promise<AppendResult & { repeats: number }> {
    for (let repeats = 0; ; repeats += 1) {
      try {
        return { ...(await store.append(stream, revision < 0 ? 'no_stream' : revision, events)), repeats };
      } catch (error) {
        if (!(error instanceof OutcomeUnknown || error instanceof EventStoreUnavailable)) throw error;
        // The port reports that the store is unavailable, and also when it is available again.
        await untilTrue(() => store.ping().then(() => true));
      }
    }
  }

  it('loses no acknowledged event and duplicates none, however often the server is killed', async () => {
    const seen: StoredEvent[] = [];
    const subscription = store.subscribe(START, core, async (events) => void seen.push(...events));
    const acknowledged = new Map<string, string[]>();
    let repeated = 0;
    const stopping = new AbortController();
    const writers = Array.from({ length: 32 }, async (_, writer) => {
      const stream = `agent-crash${writer}`;
      const ids: string[] = [];
      acknowledged.set(stream, ids);
      for (let revision = -1; !stopping.signal.aborted;) {
        const events = newEvents(1 + (writer % 3));
        const result = await appendSurely(stream, revision, events);
        revision += events.length;
        expect(result.revision).toBe(revision);
        ids.push(...events.map(({ id }) => id));
        repeated += result.repeats;
      }
    });
    const total = () => [...acknowledged.values()].reduce((sum, ids) => sum + ids.length, 0);
    for (let round = 0; round < 4; round += 1) {
      const before = total();
      await until(() => total() > before + 500);
      await killServer();
      await startServer();
    }
    const before = total();
    await until(() => total() > before + 500);
    stopping.abort();
    await Promise.all(writers);

    const stored = await everything(store);
    expect(repeated).toBeGreaterThan(0);
    expect(stored).toHaveLength(total());
    expect(stored.map(({ position }) => Number(position))).toEqual(Array.from({ length: total() }, (_, index) => index + 1));
    for (const [stream, ids] of acknowledged) expect(stored.filter((event) => event.stream === stream).map(({ id }) => id)).toEqual(ids);
    await until(() => seen.length >= stored.length);
    expect(seen.map(({ id }) => id)).toEqual(stored.map(({ id }) => id));
    await subscription.stop();
  });

  it('reports the outcome as unknown if the response is lost, and returns the first outcome to the repeated call', async () => {
    const events = [newEvent()];
    proxy.losesAnswers = true;
    proxy.lost = 0;
    const outcome = store.append('agent-lost', 'no_stream', events).catch((error: Error) => error);
    await until(() => proxy.lost > 0);
    proxy.cut();
    expect(await outcome).toBeInstanceOf(OutcomeUnknown);
    proxy.losesAnswers = false;
    expect(await appendSurely('agent-lost', -1, events)).toMatchObject({ revision: 0, duplicate: true, repeats: 0 });
    expect((await everything(store)).filter(({ stream }) => stream === 'agent-lost')).toHaveLength(1);
  });

  it('reports that it is unavailable and wrote nothing when the server can not be reached', async () => {
    proxy.target = null;
    proxy.cut();
    const events = [newEvent()];
    const refusal = () => store.append('agent-refused', 'no_stream', events).catch((error: Error) => error);
    // The first append may still use a connection that is not yet known to be broken.
    let last = await refusal();
    if (last instanceof OutcomeUnknown) last = await refusal();
    expect(last).toBeInstanceOf(EventStoreUnavailable);
    await expect(store.ping()).rejects.toBeInstanceOf(EventStoreUnavailable);
    await expect(store.head('core')).rejects.toBeInstanceOf(EventStoreUnavailable);
    proxy.target = Number(new URL(server.url).port);
    await store.ping();
    expect(await store.append('agent-refused', 'no_stream', events)).toMatchObject({ duplicate: false });
  });
});
