import { following, logClass } from './event-store.follow.contract.ts';
import {
  collect,
  core,
  everything,
  metadata,
  newEvent,
  newEvents,
  type ContractSubject,
  type Given,
} from '../support/event-store-contract.ts';
import type { JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import {
  StreamClosed,
  WrongExpectedRevision,
  type EventFilter,
  type EventStore,
  type NewEvent,
  type StoredEvent,
} from '../../src/eventsourcing/event-store/event-store.ts';

/** Tests what every adapter of the port must do. */
export function eventStoreContract(name: string, makeStore: () => Promise<ContractSubject>): void {
  describe(`The event store (${name})`, () => {
    let subject: ContractSubject;
    let store: EventStore;
    let number = 0;
    const newStream = (category = 'agent') => `${category}-${(number += 1)}`;

    beforeAll(async () => {
      subject = await makeStore();
      store = subject.store;
    });
    afterAll(() => subject.close());

    describe('appending', () => appending(() => ({ store, subject, newStream })));
    describe('reading', () => reading(() => ({ store, subject, newStream })));
    describe('following', () => following(() => ({ store, subject, newStream })));
    describe('the class log', () => logClass(() => ({ store, subject, newStream })));
  });
}

function appending(given: Given): void {
  it('gives revisions, positions and the time, and reads back what was written', async () => {
    const { store, newStream } = given();
    const stream = newStream();
    const first = await store.append(stream, 'no_stream', [newEvent({ n: 1, text: 'ä€😀' }), newEvent({ n: 2 }, 'Ended')]);
    expect(first).toMatchObject({ revision: 1, duplicate: false });
    const second = await store.append(stream, 1, [newEvent({ n: 3 })]);
    expect(second.revision).toBe(2);
    expect(second.position > first.position).toBe(true);
    const stored = await collect(store.readStream(stream));
    expect(stored).toEqual([...first.events, ...second.events]);
    expect(stored.map(({ revision, type, data }) => [revision, type, data.n])).toEqual([
      [0, 'Happened', 1],
      [1, 'Ended', 2],
      [2, 'Happened', 3],
    ]);
    expect(stored[2]).toMatchObject({ stream, position: second.position, metadata });
    for (const { at, position } of stored) {
      expect(at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(position).toMatch(/^\d{20}$/);
    }
  });

  it('reports the stream’s revision if another one was expected, and writes nothing', async () => {
    const { store, newStream } = given();
    const stream = newStream();
    await expect(store.append(stream, 0, [newEvent()])).rejects.toEqual(new WrongExpectedRevision(stream, 0, -1));
    await store.append(stream, 'no_stream', newEvents(2));
    await expect(store.append(stream, 'no_stream', [newEvent()])).rejects.toMatchObject({ name: 'WrongExpectedRevision', actual: 1 });
    await expect(store.append(stream, 0, [newEvent()])).rejects.toMatchObject({ actual: 1, expected: 0, stream });
    await expect(store.append(stream, 7, [newEvent()])).rejects.toMatchObject({ actual: 1, expected: 7 });
    expect(await collect(store.readStream(stream))).toHaveLength(2);
  });

  it('lets exactly one of 64 writers with the same expectation win', async () => {
    const { store, subject, newStream } = given();
    const other = await subject.another();
    const stream = newStream();
    await store.append(stream, 'no_stream', [newEvent()]);
    const race = await Promise.allSettled(
      Array.from({ length: 64 }, (_, i) => (i % 2 ? store : other).append(stream, 0, [newEvent({ i })])),
    );
    expect(race.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const lost of race)
      if (lost.status === 'rejected') expect(lost.reason).toMatchObject({ name: 'WrongExpectedRevision', actual: 1 });
    expect(await collect(store.readStream(stream))).toHaveLength(2);
  });

  it('returns the first result for a repeated append: at once, after later events, and through another adapter', async () => {
    const { store, subject, newStream } = given();
    const stream = newStream();
    await store.append(stream, 'no_stream', [newEvent()]);
    const events = newEvents(3);
    const first = await store.append(stream, 0, events);
    const again = { ...first, duplicate: true };
    expect(await store.append(stream, 0, events)).toEqual(again);
    await store.append(stream, 3, newEvents(2));
    expect(await store.append(stream, 0, events)).toEqual(again);
    expect(await (await subject.another()).append(stream, 0, events)).toEqual(again);
    const racing = newEvents(2);
    const answers = await Promise.all(Array.from({ length: 8 }, () => store.append(stream, 5, racing)));
    expect(answers.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    expect(new Set(answers.map(({ position }) => position)).size).toBe(1);
    expect(await collect(store.readStream(stream))).toHaveLength(8);
  });

  it('treats a partial overlap as a conflict', async () => {
    const { store, newStream } = given();
    const stream = newStream();
    const [a, b, c] = newEvents(3) as [NewEvent, NewEvent, NewEvent];
    await store.append(stream, 'no_stream', [a, b]);
    for (const events of [[a], [b, a], [a, c], [c, b], [a, b, c]]) {
      const repeated = store.append(stream, 'no_stream', events);
      if (events.length === 1) expect(await repeated).toMatchObject({ duplicate: true, revision: 0 });
      else await expect(repeated).rejects.toMatchObject({ actual: 1 });
    }
    expect(await collect(store.readStream(stream))).toHaveLength(2);
  });

  it('refuses an invalid append, and still accepts valid ones', async () => {
    const { store, newStream } = given();
    const stream = newStream();
    const deep = JSON.parse('{"a":'.repeat(65) + '1' + '}'.repeat(65)) as JsonObject;
    for (const [name, expected, events] of [
      [stream, 'no_stream', []],
      [stream, 'no_stream', newEvents(501)],
      [stream, 'no_stream', [newEvent({ text: 'x'.repeat(1024 * 1024) })]],
      [stream, 'no_stream', [newEvent(deep)]],
      [stream, 'no_stream', [{ ...newEvent(), id: 'not-a-uuid' }]],
      [stream, 'no_stream', [{ ...newEvent(), type: 'NobodyKnows' }]],
      [stream, 'no_stream', [{ ...newEvent({}, 'Renamed'), schemaVersion: 1 }]],
      [stream, -1, [newEvent()]],
      [stream, 0.5, [newEvent()]],
      ['no stream\0', 'no_stream', [newEvent()]],
      ['', 'no_stream', [newEvent()]],
    ] as const)
      await expect(store.append(name, expected, [...events])).rejects.toThrow();
    expect(await collect(store.readStream(stream))).toEqual([]);
    await store.append(stream, 'no_stream', newEvents(500));
    await store.append(stream, 499, [newEvent({ text: 'x'.repeat(1000 * 1024) })]);
  });

  it('replaces characters that a database can not store', async () => {
    const { store, newStream } = given();
    const { events } = await store.append(newStream(), 'no_stream', [newEvent({ 'k\0': ['a\0b', 'c\ud800d', '\\u0000'] })]);
    expect(events[0]?.data).toEqual({ 'k\uFFFD': ['a\uFFFDb', 'c\uFFFDd', '\\u0000'] });
    expect(await collect(store.readStream(events[0]?.stream ?? ''))).toEqual(events);
  });

  it('refuses further appends to a closed stream, but still returns the result of repeated ones', async () => {
    const { store, subject, newStream } = given();
    const stream = newStream();
    const last = [newEvent({}, 'Ended')];
    const first = await store.append(stream, 'no_stream', last);
    await expect(store.closeStream(stream, 5)).rejects.toMatchObject({ name: 'WrongExpectedRevision', actual: 0 });
    await store.closeStream(stream, 0);
    await store.closeStream(stream, 0);
    await expect(store.append(stream, 0, [newEvent()])).rejects.toEqual(new StreamClosed(stream));
    await expect((await subject.another()).append(stream, 0, [newEvent()])).rejects.toEqual(new StreamClosed(stream));
    expect(await store.append(stream, 'no_stream', last)).toEqual({ ...first, duplicate: true });
    expect(await collect(store.readStream(stream))).toHaveLength(1);
  });
}

function reading(given: Given): void {
  it('reads a stream forwards and backwards, from anywhere, with a limit', async () => {
    const { store, newStream } = given();
    const stream = newStream();
    for (let i = 0; i < 3; i += 1) await store.append(stream, i === 0 ? 'no_stream' : i * 400 - 1, newEvents(400));
    const revisions = async (options: Parameters<EventStore['readStream']>[1]) =>
      (await collect(store.readStream(stream, options))).map(({ revision }) => revision);
    const all = Array.from({ length: 1200 }, (_, i) => i);
    expect(await revisions({})).toEqual(all);
    expect(await revisions({ backwards: true })).toEqual(all.toReversed());
    expect(await revisions({ from: 1198 })).toEqual([1198, 1199]);
    expect(await revisions({ from: 1200 })).toEqual([]);
    expect(await revisions({ from: 3, limit: 2 })).toEqual([3, 4]);
    expect(await revisions({ from: 1, backwards: true })).toEqual([1, 0]);
    expect(await revisions({ limit: 3, backwards: true })).toEqual([1199, 1198, 1197]);
    expect(await revisions({ limit: 0 })).toEqual([]);
    expect(await collect(store.readStream('agent-nobody'))).toEqual([]);
  });

  it('reads the log in order, in batches of at most 1000, up to its head', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    const streams = [newStream(), newStream(), newStream()];
    await Promise.all(streams.map((stream) => store.append(stream, 'no_stream', newEvents(450))));
    const batches = await collect(store.readAll(before, core));
    expect(Math.max(...batches.map((batch) => batch.length))).toBeLessThanOrEqual(1000);
    const positions = batches.flat().map(({ position }) => position);
    expect(positions).toHaveLength(1350);
    expect(positions).toEqual(positions.toSorted());
    expect(positions.at(-1)).toBe(await store.head('core'));
    expect(await everything(store, core, await store.head('core'))).toEqual([]);
  });

  it('returns large events in smaller batches, and misses none', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    const stream = newStream();
    for (let i = 0; i < 20; i += 1)
      await store.append(stream, i === 0 ? 'no_stream' : i - 1, [newEvent({ text: 'x'.repeat(1000 * 1024) })]);
    const batches = await collect(store.readAll(before, core));
    expect(batches.length).toBeGreaterThan(1);
    expect(batches.flat().map(({ revision }) => revision)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(await collect(store.readStream(stream))).toHaveLength(20);
  });

  it('reads the same events in bulk, up to the requested end', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    const [agent, other] = [newStream(), newStream('account')];
    await store.append(agent, 'no_stream', [newEvent({ text: 'ä€😀\\\n\t', list: [1, null] }), ...newEvents(300), newEvent({}, 'Ended')]);
    await store.append(other, 'no_stream', [newEvent({ name: 'x' }, 'Renamed'), newEvent({ text: 'y'.repeat(300_000) })]);
    const end = await store.head('core');
    const beyond = await store.append(agent, 301, newEvents(3));
    for (const filter of [core, { ...core, categories: ['account'] }, { ...core, categories: ['agent'], types: ['Ended'] }]) {
      const batches = await collect(store.readBulk(before, end, filter));
      const found = JSON.parse(JSON.stringify(batches.flatMap(({ events }) => events))) as StoredEvent[];
      expect(found).toEqual((await everything(store, filter, before)).filter(({ position }) => position <= end));
      for (const { events, upTo } of batches) for (const { position } of events) expect(position <= upTo && upTo <= end).toBe(true);
    }
    expect(await collect(store.readBulk(end, end, core))).toEqual([]);
    for await (const { events } of store.readBulk(before, beyond.position, core)) {
      expect(events[0]?.stream).toBe(agent);
      break;
    }
  });

  it('reads the same events of a stream in bulk, from any revision', async () => {
    const { store, newStream } = given();
    const [stream, other] = [newStream(), newStream()];
    await store.append(stream, 'no_stream', [
      newEvent({ text: 'ä€😀\\\n\t', list: [1, null] }),
      ...newEvents(498),
      newEvent({ name: 'x' }, 'Renamed'),
    ]);
    await store.append(other, 'no_stream', newEvents(3));
    await store.append(stream, 499, newEvents(400));
    const found = async (from: number, name = stream) =>
      JSON.parse(JSON.stringify((await collect(store.readStreamInBulk(name, from))).flat())) as StoredEvent[];
    expect(await found(0)).toEqual(await collect(store.readStream(stream)));
    expect(await found(497)).toEqual(await collect(store.readStream(stream, { from: 497 })));
    expect(await found(900)).toEqual([]);
    expect(await found(0, 'agent-nobody')).toEqual([]);
  });

  it('reads the events at the requested positions, in that order', async () => {
    const { store, newStream } = given();
    const [stream, output] = [newStream(), newStream('log')];
    const { events } = await store.append(stream, 'no_stream', [...newEvents(30), { ...newEvent({ name: 'x' }, 'Renamed') }]);
    const { events: lines } = await store.append(output, 'no_stream', [newEvent({ lines: [] }, 'LogLinesCaptured')]);
    await store.append(newStream(), 'no_stream', [newEvent()]);
    const asked = [30, 2, 3, 17].map((index) => events[index] as StoredEvent);
    expect(await collect(store.readAt(asked.map(({ position }) => position)))).toEqual(asked);
    expect(await collect(store.readAt(events.map(({ position }) => position)))).toEqual(events);
    expect(await collect(store.readAt([]))).toEqual([]);
    const beyond = '9'.repeat(18).padStart(20, '0');
    const others = await collect(store.readAt([beyond, ...lines.map(({ position }) => position)]));
    expect(others.filter((event) => event.stream === output)).toEqual([]);
  });

  it('returns how many events follow a position, and the position of a time', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    expect(await store.lag(before, 'core')).toEqual({ events: 0, since: null });
    const { events } = await store.append(newStream(), 'no_stream', newEvents(3));
    expect(await store.lag(before, 'core')).toEqual({ events: 3, since: events[0]?.at });
    expect((await store.before(new Date(events[0]?.at ?? ''), 'core')) <= before).toBe(true);
    expect((await store.before(new Date(0), 'core')) <= before).toBe(true);
  });

  it('filters by category and by type', async () => {
    const { store, newStream } = given();
    const before = await store.head('core');
    const [account, agent] = [newStream('account'), newStream('agent')];
    await store.append(account, 'no_stream', [newEvent(), newEvent({}, 'Ended')]);
    await store.append(agent, 'no_stream', [newEvent(), newEvent({}, 'Ended')]);
    const found = async (filter: Omit<EventFilter, 'eventClass'>) =>
      (await everything(store, { ...core, ...filter }, before)).map(({ stream, type }) => `${stream} ${type}`);
    expect(await found({ categories: ['account'] })).toEqual([`${account} Happened`, `${account} Ended`]);
    expect(await found({ types: ['Ended'] })).toEqual([`${account} Ended`, `${agent} Ended`]);
    expect(await found({ categories: ['agent', 'other'], types: ['Ended'] })).toEqual([`${agent} Ended`]);
    expect(await found({ categories: ['acc'] })).toEqual([]);
  });
}
