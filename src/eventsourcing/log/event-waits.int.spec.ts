import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, openLog, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { EventWaits } from './event-waits.ts';
import { LogFollower } from './log-follower.ts';

describe('waiting for events', () => {
  let test: TestDatabase;
  let log: OpenedLog;
  let follower: LogFollower;
  let waits: EventWaits;
  const arrive = (boat: string, type = 'BoatArrived') => appendTo(log.store, `boat-${boat}`, sampleEvent(type));

  beforeAll(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
  });
  beforeEach(async () => {
    follower = new LogFollower(log.store);
    waits = new EventWaits(follower);
    await follower.onApplicationBootstrap();
  });
  afterEach(async () => {
    waits.beforeApplicationShutdown();
    await follower.beforeApplicationShutdown();
  });
  afterAll(async () => {
    await log.close();
    await test.drop();
  });

  it('misses no event between the read of the state and the wait', async () => {
    using watch = waits.watch('boat-Ark');
    const { events } = await arrive('Ark');
    await arrive('Other');
    expect(await watch.next(90_000)).toEqual(events[0]);
    expect(await watch.next(20)).toBeNull();
  });

  it('returns the events of the stream in order, also those of another process', async () => {
    using watch = waits.watch('boat-Beagle');
    const other = await openLog(test.url);
    await appendTo(other.store, 'boat-Beagle', sampleEvent('BoatArrived'), sampleEvent('BoatLoaded'));
    await appendTo(other.store, 'boat-Beagle', sampleEvent('BoatLeft'));
    await other.close();
    const types = [await watch.next(90_000), await watch.next(90_000), await watch.next(90_000)].map((event) => event?.type);
    expect(types).toEqual(['BoatArrived', 'BoatLoaded', 'BoatLeft']);
  });

  it('skips events until the awaited one', async () => {
    using watch = waits.watch('boat-Cutty');
    const waiting = watch.next((event) => (event.type === 'BoatLeft' ? event.revision : undefined), 90_000);
    await arrive('Cutty');
    await arrive('Cutty', 'BoatLoaded');
    await arrive('Cutty', 'BoatLeft');
    expect(await waiting).toBe(2);
  });

  it('ends at the timeout or when the caller aborts', async () => {
    using watch = waits.watch('boat-Never');
    expect(await watch.next(1)).toBeNull();
    const gone = new AbortController();
    const waiting = watch.next(60_000, gone.signal);
    gone.abort();
    expect(await waiting).toBeNull();
  });

  it('wakes all of a hundred watches on one stream, and each decides for itself whether to go on', async () => {
    let state = 0;
    const all = Array.from({ length: 100 }, (_, n) =>
      waits.until('boat-Dory', () => (state > n % 3 ? `seen ${n}` : undefined), { timeoutMs: 10_000 }),
    );
    for (state = 1; state <= 3; state += 1) await arrive('Dory', 'BoatLoaded');
    expect(await Promise.all(all)).toEqual(Array.from({ length: 100 }, (_, n) => `seen ${n}`));
    expect(await waits.until('boat-Dory', () => undefined, { timeoutMs: 5 })).toBeNull();
  });

  it('ends all waits when the service stops, and later ones at once', async () => {
    using watch = waits.watch('boat-Ark');
    const waiting = watch.next(60_000);
    waits.beforeApplicationShutdown();
    expect(await waiting).toBeNull();
    using late = waits.watch('boat-Ark');
    expect(await late.next(60_000)).toBeNull();
  });

  it('removes a disposed watch, and refuses watches beyond the limit', async () => {
    for (let n = 0; n < 10_001; n += 1) {
      waits.watch('boat-Ark')[Symbol.dispose]();
    }
    const many = Array.from({ length: 10_000 }, (_, n) => waits.watch(`boat-${n % 10}`));
    expect(() => waits.watch('boat-Ark')).toThrow('Too many requests wait already.');
    for (const watch of many) watch[Symbol.dispose]();
    using watch = waits.watch('boat-Ark');
    await arrive('Ark', 'BoatLeft');
    expect((await watch.next(90_000))?.type).toBe('BoatLeft');
  });
});
