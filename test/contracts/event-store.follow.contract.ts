import { collect, core, everything, logs, newEvent, newEvents, until, type Given } from '../support/event-store-contract.ts';
import { pause } from '../../src/kernel/async/pause.ts';
import {
  START,
  type EventFilter,
  type EventStore,
  type Position,
  type StoredEvent,
} from '../../src/eventsourcing/event-store/event-store.ts';

interface Followed {
  events: StoredEvent[];
  upTo: Position;
  batches: number;
}

/** Follows the log and records what arrives; fails if batches overlap in time or positions do not rise. */
function follow(store: EventStore, after: Position, filter: EventFilter = core) {
  const seen: Followed = { events: [], upTo: after, batches: 0 };
  let busy = false;
  const subscription = store.subscribe(after, filter, async (events, upTo) => {
    if (busy) throw new Error('two batches at once');
    busy = true;
    for (const { position } of events)
      if (position <= seen.upTo || position > upTo) throw new Error(`${position} is out of order after ${seen.upTo}`);
    await Promise.resolve();
    seen.events.push(...events);
    seen.upTo = upTo;
    seen.batches += 1;
    busy = false;
  });
  return { seen, subscription };
}

/** Part of the contract: subscriptions. */
export function following(given: Given): void {
  it('delivers each event after a position, old and new, once and in order', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    const stream = newStream();
    await store.append(stream, 'no_stream', newEvents(3));
    const { seen, subscription } = follow(store, before);
    await until(() => seen.events.length === 3);
    await store.append(stream, 2, newEvents(2));
    await until(() => seen.events.length === 5);
    expect(seen.events).toEqual(await collect(store.readStream(stream)));
    expect(seen.upTo).toBe(await store.head('core'));
    await subscription.stop();
    await subscription.ended;
    await store.append(stream, 4, newEvents(1));
    expect(seen.events).toHaveLength(5);
  });

  it('follows from the head, and sees what another adapter appends', async () => {
    const { store, subject, newStream } = given();
    const other = await subject.another();
    const { seen, subscription } = follow(store, await store.head('core'));
    const stream = newStream();
    await other.append(stream, 'no_stream', [newEvent()]);
    await until(() => seen.events.length === 1);
    expect(seen.events[0]).toMatchObject({ stream, revision: 0 });
    await subscription.stop();
  });

  it('advances its position past events that the filter excludes', async () => {
    const { store, newStream } = given();
    const { seen, subscription } = follow(store, await store.head('core'), { ...core, categories: ['account'], types: ['Ended'] });
    await store.append(newStream('agent'), 'no_stream', newEvents(20));
    const { position } = await store.append(newStream('account'), 'no_stream', newEvents(20));
    await until(() => seen.upTo >= position);
    expect(seen.events).toEqual([]);
    await store.append(newStream('account'), 'no_stream', [newEvent({}, 'Ended')]);
    await until(() => seen.events.length === 1);
    await subscription.stop();
  });

  it('waits for the batch in flight when it is stopped, and delivers no further one', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    let finish: () => void = () => undefined;
    let done = false;
    let calls = 0;
    const subscription = store.subscribe(before, core, async () => {
      calls += 1;
      await new Promise<void>((resolve) => (finish = resolve));
      done = true;
    });
    await store.append(newStream(), 'no_stream', [newEvent()]);
    await until(() => calls === 1);
    const stopped = subscription.stop().then(() => done);
    await store.append(newStream(), 'no_stream', [newEvent()]);
    finish();
    expect(await stopped).toBe(true);
    expect(calls).toBe(1);
  });

  it('ends with the error that its handler throws', async () => {
    const { store, newStream } = given();
    const subscription = store.subscribe(await store.head('core'), core, () => Promise.reject(new Error('poison')));
    await store.append(newStream(), 'no_stream', [newEvent()]);
    await expect(subscription.ended).rejects.toThrow('poison');
    await subscription.stop();
  });

  it('misses nothing and keeps the order while commits of 8 writers are slow', async () => {
    const { store, subject, newStream } = given();
    const before = await store.head('core');
    const { seen, subscription } = follow(store, before);
    const other = await subject.another();
    const slow = Array.from({ length: 4 }, async (_, writer) => {
      const stream = newStream();
      for (let i = 0; i < 15; i += 1) await subject.appendSlowly(stream, i - 1, ((writer * 7 + i * 3) % 11) + 5);
    });
    const fast = Array.from({ length: 4 }, async (_, writer) => {
      const stream = newStream();
      for (let i = 0; i < 60; i += 1) await (writer % 2 ? store : other).append(stream, i === 0 ? 'no_stream' : i - 1, [newEvent({ i })]);
    });
    await Promise.all([...slow, ...fast]);
    const head = await store.head('core');
    await until(() => seen.upTo === head);
    const stored = await everything(store, core, before);
    expect(stored).toHaveLength(4 * 15 + 4 * 60);
    // The events that this adapter appended itself must be among them, although it may not have read them back.
    expect(seen.events).toEqual(stored);
    await subscription.stop();
  });
}

/** Part of the contract: streams of the class `log`. */
export function logClass(given: Given): void {
  const lines = (text: string) => newEvent({ lines: [text] }, 'LogLinesCaptured');

  it('is separate from the core: positions, reading and following', async () => {
    const { store, newStream } = given();
    const coreHead = await store.head('core');
    const logHead = await store.head('log');
    const stream = newStream('log');
    const { position } = await store.append(stream, 'no_stream', [lines('hello')]);
    expect(await store.head('core')).toBe(coreHead);
    expect(await store.head('log')).toBe(position);
    expect(await everything(store, core, coreHead)).toEqual([]);
    const { seen, subscription } = follow(store, logHead, logs);
    await until(() => seen.events.length === 1);
    await store.append(stream, 0, [lines('again')]);
    await until(() => seen.events.length === 2);
    expect(seen.events).toEqual(await collect(store.readStream(stream)));
    await subscription.stop();
  });

  it('removes the events of a stream before a revision, but never the last one and never the revision', async () => {
    const { store, subject, newStream } = given();
    const [bounded, other] = [newStream('log'), newStream('log')];
    for (let i = 0; i < 6; i += 1) await store.append(bounded, i === 0 ? 'no_stream' : i - 1, [lines(`${i}`)]);
    await store.append(other, 'no_stream', [lines('kept'), lines('too')]);
    await store.truncateStream(bounded, 4);
    // A repeated call deletes nothing more, and restores nothing.
    for (const before of [4, 2]) await store.truncateStream(bounded, before);
    await subject.removeExpired();
    const head = await store.head('log');
    expect((await collect(store.readStream(bounded))).map(({ revision }) => revision)).toEqual([4, 5]);
    expect(await collect(store.readStream(other))).toHaveLength(2);
    expect((await everything(store, { ...logs, types: ['LogLinesCaptured'] })).filter(({ stream }) => stream === bounded)).toHaveLength(2);
    await store.truncateStream(bounded, Number.MAX_SAFE_INTEGER);
    await store.truncateStream(newStream('log'), 3);
    await subject.removeExpired();
    expect((await collect(store.readStream(bounded))).map(({ revision }) => revision)).toEqual([5]);
    expect(await store.append(bounded, 5, [lines('next')])).toMatchObject({ revision: 6 });
    expect((await store.head('log')) > head).toBe(true);
  });

  it('removes events by age, but not the last one, so that the stream continues at its revision', async () => {
    const { store, subject, newStream } = given();
    const stream = newStream('log');
    await store.append(stream, 'no_stream', [lines('old'), lines('newest')]);
    await store.setRetention(stream, { maxAgeSeconds: 1 });
    await pause(1_100);
    await subject.removeExpired();
    expect((await collect(store.readStream(stream))).map(({ revision }) => revision)).toEqual([1]);
    await expect(store.append(stream, 'no_stream', [lines('x')])).rejects.toMatchObject({ actual: 1 });
    expect(await store.append(stream, 1, [lines('x')])).toMatchObject({ revision: 2 });
  });

  it('removes events by age per stream, also if a silent stream gets its age late and continues', async () => {
    const { store, subject, newStream } = given();
    const [kept, bounded] = [newStream('log'), newStream('log')];
    await store.append(kept, 'no_stream', [lines('a'), lines('b')]);
    await store.append(bounded, 'no_stream', [lines('a'), lines('b'), lines('c')]);
    await store.setRetention(kept, { maxAgeSeconds: 3_600 });
    const aged = () => pause(1_100);
    await aged();
    await subject.removeExpired();
    await store.setRetention(bounded, { maxAgeSeconds: 1 });
    await subject.removeExpired();
    expect((await collect(store.readStream(bounded))).map(({ revision }) => revision)).toEqual([2]);
    await store.append(bounded, 2, [lines('d'), lines('e')]);
    await aged();
    await subject.removeExpired();
    expect((await collect(store.readStream(bounded))).map(({ revision }) => revision)).toEqual([4]);
    expect(await collect(store.readStream(kept))).toHaveLength(2);
    expect((await everything(store, logs)).filter(({ stream }) => stream === bounded)).toHaveLength(1);
  });

  it('keeps the core for ever', async () => {
    const { store } = given();
    await expect(store.setRetention('agent-1', { maxAgeSeconds: 1 })).rejects.toThrow(/kept forever/);
    await expect(store.truncateStream('agent-1', 1)).rejects.toThrow(/kept forever/);
    expect(await everything(store, core, START)).not.toEqual([]);
  });
}
