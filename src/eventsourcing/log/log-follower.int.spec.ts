import { sampleEvent } from '../../../test/support/sample-event.ts';
import { appendTo, eventually, openLog, openStore, type OpenedLog } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { defineEvent, type JsonObject } from '../event-store/event-definition.ts';
import type { Position } from '../event-store/event-store.ts';
import { LogFollower } from './log-follower.ts';

/** Records the calls that a listener gets, in order. */
class Notes {
  readonly told: string[] = [];
  readonly heardMeanwhile: Position[] = [];

  constructor(follower: LogFollower) {
    follower.listen({
      onEvents: (events) => {
        this.told.push(...events.map(({ type }) => type));
        this.heardMeanwhile.push(follower.position);
      },
      onGap: () => this.told.push('gap'),
    });
  }
}

describe('following the log', () => {
  let test: TestDatabase;
  const opened: { log: OpenedLog; follower: LogFollower }[] = [];
  const replica = async () => {
    const log = await openLog(test.url);
    const follower = new LogFollower(log.store);
    const notes = new Notes(follower);
    opened.push({ log, follower });
    await follower.onApplicationBootstrap();
    return { log, follower, notes };
  };

  beforeEach(async () => {
    test = await freshDatabase();
  });
  afterEach(async () => {
    for (const { log, follower } of opened.splice(0)) {
      await follower.beforeApplicationShutdown();
      await log.close();
    }
    await test.drop();
  });

  it('delivers each event to a listener, in order, before the position moves', async () => {
    const { log, follower, notes } = await replica();
    const types = ['BoatArrived', 'BoatLoaded', 'BoatLeft'];
    const positions: Position[] = [];
    for (const type of types) {
      positions.push((await appendTo(log.store, 'boat-Ark', sampleEvent(type))).position);
      expect(await follower.catchUpToHead()).toBe(positions.at(-1));
      expect(follower.position).toBe(positions.at(-1));
    }
    expect(notes.told).toEqual(['gap', ...types]);
    expect(notes.heardMeanwhile.every((heard, index) => heard < (positions[index] as Position))).toBe(true);
  });

  it('has received all events that another replica stored before, once it was asked to catch up', async () => {
    const [one, two] = [await replica(), await replica()];
    for (let round = 0; round < 100; round += 1) {
      const { position } = await appendTo(one.log.store, 'boat-Ark', sampleEvent('BoatArrived'));
      expect(await two.follower.catchUpToHead()).toBe(position);
      expect(two.notes.told).toHaveLength(round + 2);
    }
  });

  it('reads the head once for many callers, and resolves with null while the store is unavailable', async () => {
    const { log, follower } = await replica();
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    let asked = 0;
    const head = log.store.head.bind(log.store);
    log.store.head = (eventClass) => ((asked += 1), head(eventClass));
    await Promise.all(Array.from({ length: 100 }, () => follower.catchUpToHead()));
    expect(asked).toBe(1);
    log.store.head = () => Promise.reject(new Error('away'));
    expect(await follower.catchUpToHead()).toBeNull();
  });

  it('delivers nothing to a listener that was removed', async () => {
    const { log, follower } = await replica();
    let told = 0;
    const stop = follower.listen({ onEvents: () => (told += 1) });
    stop();
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await follower.catchUpToHead();
    expect(told).toBe(0);
  });

  it('reports a gap after an event that this program does not know, and continues after it', async () => {
    const { log, follower, notes } = await replica();
    const newer = openStore(log.database, test.url, new EventCatalogue([defineEvent<JsonObject>()('WhirlpoolSeen', () => '')]));
    await appendTo(newer, 'boat-Ark', sampleEvent('WhirlpoolSeen'));
    await newer.close();
    await eventually(() => notes.told.length === 2);
    await appendTo(log.store, 'boat-Dory', sampleEvent('BoatArrived'));
    await follower.catchUpToHead();
    expect(notes.told).toEqual(['gap', 'gap', 'BoatArrived']);
  });

  it('refuses waiting callers when the service stops', async () => {
    const { log, follower } = await replica();
    log.store.head = () => Promise.resolve('9'.repeat(20));
    const waiting = follower.catchUpToHead();
    await Promise.all([
      expect(waiting).rejects.toThrow('The newest events have not been heard here yet: the service is stopping.'),
      log.store.ping().then(() => follower.beforeApplicationShutdown()),
    ]);
  });
});
