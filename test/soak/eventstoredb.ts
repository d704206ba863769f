import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type StoredEvent, START } from '../../src/eventsourcing/event-store/event-store.ts';
import { EventStoreDbEventStore } from '../../src/eventsourcing/event-store/eventstoredb/eventstoredb-event-store.ts';
import { contractCatalogue, core, everything } from '../support/event-store-contract.ts';
import { somePrefix } from '../support/eventstoredb/location.ts';
import { Writers } from '../support/eventstoredb/writers.ts';
import { span, until } from '../support/until.ts';
import { ClusterProcess, freePort, ServerProcess, untilLive } from './servers.ts';

const writerCount = 64;
const unhandled: unknown[] = [];
process.on('unhandledRejection', (reason) => void unhandled.push(reason));
const note = (text: string) => process.stdout.write(`${new Date().toISOString().slice(11, 23)} ${text}\n`);

interface Trouble {
  name: string;
  times: number;
  /** The longest time until the next acknowledgement, in ms; it is absent if the time of a server's own start or election decides. */
  within?: number;
  run: () => Promise<void>;
}

/** Runs writers and followers while the troubles happen one after another, and then compares the log with the acknowledged writes. */
async function soak(url: string, troubles: Trouble[]): Promise<boolean> {
  const store = new EventStoreDbEventStore(url, somePrefix(), contractCatalogue);
  const seen: StoredEvent[] = [];
  const some: StoredEvent[] = [];
  const all = store.subscribe(START, core, async (events) => void seen.push(...events));
  const slow = store.subscribe(START, { ...core, categories: ['agent'] }, async (events) => {
    some.push(...events);
    await span(20);
  });
  const writers = new Writers(store, writerCount);
  const further = (count: number) => {
    const goal = writers.total + count;
    const reached = () => (writers.check(), writers.total >= goal || undefined);
    return until(`${count} more events are acknowledged`, reached, { timeoutMs: 120_000, everyMs: 20 });
  };
  await further(500);
  let late = 0;
  for (const { name, times, within = Infinity, run } of troubles)
    for (let time = 1; time <= times; time += 1) {
      writers.resetGap();
      await run();
      await further(300);
      if (writers.longestGap > within) late += 1;
      note(
        `${name} ${time}/${times}: longest wait for an acknowledgement ${Math.round(writers.longestGap)} ms, ${writers.total} events so far`,
      );
    }
  await writers.stop();
  const stored = await everything(store);
  await until('the followers have all', () => (seen.length >= stored.length && some.length >= stored.length) || undefined);
  const ids = (events: StoredEvent[]) => events.map(({ id }) => id).join(' ');
  const streams = [...writers.acknowledged].every(
    ([stream, acknowledged]) => ids(stored.filter((event) => event.stream === stream)) === acknowledged.join(' '),
  );
  const held = {
    'no acknowledged event lost, none doubled, all at their revisions': streams && stored.length === writers.total,
    'the followers saw all, once and in order': ids(seen) === ids(stored) && ids(some) === ids(stored),
    'no rejection that nobody handled': unhandled.length === 0,
    'appends went on in time': late === 0,
  };
  await Promise.all([all.stop(), slow.stop()]);
  await store.close();
  for (const [what, holds] of Object.entries(held)) note(`${holds ? 'held' : 'BROKEN'}: ${what}`);
  note(`${writers.total} events of ${writerCount} writers`);
  if (unhandled.length > 0) note(String(unhandled[0]));
  return Object.values(held).every(Boolean);
}

async function single(command: string, folder: string): Promise<boolean> {
  const port = await freePort();
  const server = new ServerProcess(command, [join(folder, 'single'), String(port)]);
  const start = async () => {
    server.start();
    await untilLive(port);
  };
  const restarted = (signal: 'SIGKILL' | 'SIGTERM') => async () => {
    await server.end(signal);
    await start();
    note('  live again');
  };
  await start();
  try {
    return await soak(`esdb://127.0.0.1:${port}?tls=false`, [
      { name: 'kill -9', times: 20, run: restarted('SIGKILL') },
      { name: 'SIGSTOP for 15 s', times: 1, run: () => frozen(server, 15_000) },
      { name: 'SIGTERM', times: 2, run: restarted('SIGTERM') },
    ]);
  } finally {
    await server.end('SIGKILL');
  }
}

async function cluster(command: string, folder: string, url: string): Promise<boolean> {
  const nodes = new ClusterProcess(command, folder, url);
  nodes.start();
  const killed = async () => {
    const leader = await nodes.leader();
    await leader.end('SIGKILL');
    await span(4_000);
    leader.start();
  };
  const stopped = async () => {
    const leader = await nodes.leader();
    await frozen(leader, 12_000);
    // The old leader may still believe that it leads for this long.
    await span(3_000);
  };
  try {
    await nodes.leader();
    return await soak(url, [
      { name: 'leader killed', times: 10, within: 3_000, run: killed },
      { name: 'leader frozen for 12 s', times: 10, run: stopped },
    ]);
  } finally {
    await nodes.stop();
  }
}

async function frozen(server: ServerProcess, ms: number): Promise<void> {
  server.signal('SIGSTOP');
  await span(ms);
  server.signal('SIGCONT');
}

const { EVENTSTORE_COMMAND, EVENTSTORE_CLUSTER_COMMAND, EVENTSTORE_CLUSTER_URL } = process.env;
if (!EVENTSTORE_COMMAND && !(EVENTSTORE_CLUSTER_COMMAND && EVENTSTORE_CLUSTER_URL))
  throw new Error(
    'EVENTSTORE_COMMAND, or EVENTSTORE_CLUSTER_COMMAND and EVENTSTORE_CLUSTER_URL, must say how a server is started (docs/guides/eventstoredb.md)',
  );
const folder = await mkdtemp(join(tmpdir(), 'mooring-soak-'));
note(`the servers' folders and logs are in ${folder}`);
let held = true;
if (EVENTSTORE_COMMAND) held = await single(EVENTSTORE_COMMAND, folder);
if (EVENTSTORE_CLUSTER_COMMAND && EVENTSTORE_CLUSTER_URL)
  held = (await cluster(EVENTSTORE_CLUSTER_COMMAND, folder, EVENTSTORE_CLUSTER_URL.replaceAll('FOLDER', folder))) && held;
// After a failure the folder is kept, because it contains the servers' logs.
if (held) await rm(folder, { recursive: true, force: true });
process.exitCode = held ? 0 : 1;
