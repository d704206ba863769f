import pg from 'pg';

import { sampleEvent } from '../../../../test/support/sample-event.ts';
import { appendTo, eventually, everything, openLog, type OpenedLog } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { type EventFilter, START, type StoredEvent } from '../event-store.ts';
import type { EventReader } from './reading.ts';
import { SharedReads } from './shared-reads.ts';

describe("the log's end in memory", () => {
  let test: TestDatabase;
  let log: OpenedLog;

  beforeEach(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await log.close();
    await test.drop();
  });

  function follow(filter: EventFilter): StoredEvent[] {
    const heard: StoredEvent[] = [];
    log.store.subscribe(START, filter, async (events) => void heard.push(...events));
    return heard;
  }

  it('delivers the events that this process appended to subscribers without reading them back', async () => {
    const followers = [
      follow(everything),
      follow({ ...everything, categories: ['boat'] }),
      follow({ ...everything, types: ['BoatArrived'] }),
    ];
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await eventually(() => followers.every(({ length }) => length === 1), 'the first event');
    const asked = jest.spyOn(pg.Client.prototype, 'query');
    for (let boat = 0; boat < 40; boat += 1) await log.store.append(`boat-${boat}`, 'no_stream', [sampleEvent('BoatArrived')]);
    await eventually(() => followers.every(({ length }) => length === 41), 'all events');
    const reads = (asked.mock.calls as unknown as [{ name?: string }][]).filter(([query]) => query.name?.startsWith('batch core') === true);
    // On a busy machine a notification can arrive long before the result of its append, so some events are read.
    expect(reads.length).toBeLessThan(20);
    for (const heard of followers) {
      expect(heard.map(({ position }) => position)).toEqual(heard.map(({ position }) => position).toSorted());
      expect(heard[40]).toEqual(await first(log.store.readStream('boat-39')));
    }
  });

  it('reads from the table if another process appended in between, and misses nothing', async () => {
    const other = await openLog(test.url);
    const heard = follow(everything);
    for (let n = 0; n < 30; n += 1)
      await appendTo((n % 3 === 0 ? other : log).store, `boat-${n % 7}`, sampleEvent('BoatLoaded', { tons: n }));
    await eventually(() => heard.length === 30, 'all events');
    await other.close();
    expect(heard.map(({ data }) => data.tons)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  it('keeps at most 4 MiB, and reads the rest from the table', async () => {
    const reads: string[] = [];
    const events = Array.from({ length: 10 }, (_, n) => stored(n + 1));
    const reader = {
      batch: async (after: string) => {
        reads.push(after);
        return { events: events.filter(({ position }) => position > after), upTo: at(10), size: 10 };
      },
    } as unknown as EventReader;
    const shared = new SharedReads(reader, 'core');
    for (const [n, event] of events.entries()) shared.cache({ after: at(n), events: [event], upTo: event.position, size: 1024 * 1024 });
    expect((await shared.batch(at(6), everything)).events).toEqual(events.slice(6));
    expect(reads).toEqual([]);
    expect((await shared.batch(at(5), everything)).events).toEqual(events.slice(5));
    expect(reads).toEqual([at(5)]);
    expect(shared.find('boat-10', 0)).toBe(events[9]);
    expect(shared.find('boat-1', 0)).toBeUndefined();
  });
});

const at = (n: number) => String(n).padStart(20, '0');

function stored(n: number): StoredEvent {
  const { metadata, ...event } = sampleEvent('BoatArrived');
  return { ...event, metadata, stream: `boat-${n}`, revision: 0, position: at(n), at: new Date(n).toISOString() };
}

async function first(events: AsyncIterable<StoredEvent>): Promise<StoredEvent | undefined> {
  for await (const event of events) return event;
  return undefined;
}
