import { contractCatalogue, core, everything, newEvent, newEvents, until } from '../../../../test/support/event-store-contract.ts';
import { somePrefix } from '../../../../test/support/eventstoredb/location.ts';
import { FakeEventStoreDb, type AppendFault } from '../../../../test/support/eventstoredb/fake-eventstoredb.ts';
import { appendSurely, Writers } from '../../../../test/support/eventstoredb/writers.ts';
import { untilTrue } from '../../../../test/support/until.ts';
import { EventStoreUnavailable, OutcomeUnknown, START, StreamClosed, WrongExpectedRevision, type StoredEvent } from '../event-store.ts';
import { EventStoreDbEventStore } from './eventstoredb-event-store.ts';

/** Starts one server, or three nodes with one log, and opens adapters on them. */
function given(nodes: number) {
  const standIns: FakeEventStoreDb[] = [];
  const opened: EventStoreDbEventStore[] = [];
  const prefix = somePrefix();
  const url = () => `esdb://${standIns.map(({ port }) => `127.0.0.1:${port}`).join(',')}?tls=false`;
  const open = (appendDeadlineMs?: number) => {
    const store = new EventStoreDbEventStore(url(), prefix, contractCatalogue, { appendDeadlineMs });
    opened.push(store);
    return store;
  };
  beforeAll(async () => {
    const first = await FakeEventStoreDb.start();
    standIns.push(first);
    while (standIns.length < nodes) standIns.push(await FakeEventStoreDb.start(first.log));
    for (const node of standIns) {
      node.others = standIns.filter((other) => other !== node);
      node.leader = node === first ? null : first;
    }
  });
  beforeEach(() => {
    for (const node of standIns) Object.assign(node, { onAppend: () => 'ok', onRead: () => 'ok', subscriptions: 'ok' });
  });
  afterAll(async () => {
    await Promise.all(opened.map((store) => store.close()));
    await Promise.all(standIns.map((node) => node.stop()));
  });
  return { standIns, open, node: (index = 0) => standIns[index] as FakeEventStoreDb };
}

/** Makes another node the leader. */
function elect(nodes: FakeEventStoreDb[], leader: FakeEventStoreDb): void {
  for (const node of nodes) node.leader = node === leader ? null : leader;
}

/** Makes the next appends end with these faults; those after them succeed. */
function failing(standIn: FakeEventStoreDb, ...faults: AppendFault[]): void {
  standIn.onAppend = (stream) => (stream.startsWith('$') ? 'ok' : (faults.shift() ?? 'ok'));
}

function follow(store: EventStoreDbEventStore, after = START) {
  const seen: StoredEvent[] = [];
  const subscription = store.subscribe(after, core, async (events) => void seen.push(...events));
  return { seen, stop: () => subscription.stop() };
}

const ids = (events: { id: string }[]) => events.map(({ id }) => id);

describe('An EventStoreDB that fails', () => {
  const { node, open } = given(1);
  let store: EventStoreDbEventStore;
  let impatient: EventStoreDbEventStore;
  let number = 0;
  const newStream = () => `agent-f${(number += 1)}`;
  beforeAll(() => {
    store = open();
    impatient = open(1_000);
  });

  it.each<[AppendFault, boolean]>([
    ['fails', false],
    ['fails_stored', true],
    ['silent', false],
    ['silent_stored', true],
    ['deadline_stored', true],
  ])('reports the outcome of an append that %s as unknown, and returns the outcome to the repeat', async (fault, stored) => {
    const stream = newStream();
    const events = newEvents(2);
    failing(node(), fault);
    await expect(impatient.append(stream, 'no_stream', events)).rejects.toBeInstanceOf(OutcomeUnknown);
    expect(await store.append(stream, 'no_stream', events)).toMatchObject({ revision: 1, duplicate: stored });
    expect(ids(await everything(store)).filter((id) => id === events[0]?.id)).toHaveLength(1);
  });

  it.each([1, 3])('reports the outcome of an append of %i as unknown while the node that it reads from lacks the events', async (count) => {
    const stream = newStream();
    const events = newEvents(count);
    const standIn = node();
    standIn.onAppend = () => {
      standIn.deposedAt = standIn.log.end;
      return 'ok';
    };
    await expect(store.append(stream, 'no_stream', events)).rejects.toBeInstanceOf(OutcomeUnknown);
    Object.assign(standIn, { deposedAt: null, onAppend: () => 'ok' });
    const repeated = await store.append(stream, 'no_stream', events);
    expect(repeated).toMatchObject({ revision: count - 1, duplicate: true });
    expect(ids(repeated.events)).toEqual(ids(events));
  });

  it('repeats an append that the server was too slow to commit', async () => {
    failing(node(), 'times_out_stored', 'times_out_stored');
    expect(await store.append(newStream(), 'no_stream', newEvents(1))).toMatchObject({ revision: 0, duplicate: false });
  });

  it('waits for the response of a server that takes longer than three seconds for a repeat', async () => {
    failing(node(), 'times_out_late');
    expect(await store.append(newStream(), 'no_stream', newEvents(1))).toMatchObject({ revision: 0, duplicate: false });
  });

  it('reports that nothing was written if the server is absent or not ready', async () => {
    const stream = newStream();
    failing(node(), 'not_ready');
    await expect(store.append(stream, 'no_stream', newEvents(1))).rejects.toBeInstanceOf(EventStoreUnavailable);
    await node().kill();
    await untilTrue(() =>
      store.append(stream, 'no_stream', newEvents(1)).then(
        () => false,
        (error: unknown) => error instanceof EventStoreUnavailable,
      ),
    );
    await expect(store.ping()).rejects.toBeInstanceOf(EventStoreUnavailable);
    await expect(store.head('core')).rejects.toBeInstanceOf(EventStoreUnavailable);
    await node().restart();
    await untilTrue(() => store.ping().then(() => true));
    expect(await store.append(stream, 'no_stream', newEvents(1))).toMatchObject({ revision: 0 });
  });

  it('does not believe a conflict without evidence, unless it persists', async () => {
    const stream = newStream();
    await store.append(stream, 'no_stream', newEvents(3));
    const { log } = node();
    node().deposedAt = log.records.findLast((record) => record.stream.endsWith(stream) && record.revision === 2)?.position ?? null;
    const appended = store.append(stream, 2, [newEvent()]);
    setTimeout(() => (node().deposedAt = null), 600);
    expect(await appended).toMatchObject({ revision: 3, duplicate: false });
    await expect(store.append(stream, 9, [newEvent()])).rejects.toEqual(new WrongExpectedRevision(stream, 9, 3));
  });

  it('treats a stream with a tombstone as closed', async () => {
    const stream = newStream();
    await store.append(stream, 'no_stream', newEvents(1));
    const full = node().log.records.findLast((record) => record.stream.endsWith(stream))?.stream ?? '';
    node().log.tombstone(full);
    await expect(store.append(stream, 0, newEvents(1))).rejects.toEqual(new StreamClosed(stream));
  });

  it('still reads after many readers stopped early', async () => {
    const stream = newStream();
    await store.append(stream, 'no_stream', newEvents(30));
    for (let reader = 0; reader < 120; reader += 1)
      for await (const event of store.readStream(stream)) {
        expect(event.revision).toBe(0);
        break;
      }
    expect(await store.append(stream, 29, newEvents(1))).toMatchObject({ revision: 30 });
  });

  it('handles 500 appends at once', async () => {
    const streams = Array.from({ length: 500 }, newStream);
    // An append that waits too long for a slot on a slow machine is refused, and repeated as a caller would.
    const results = await Promise.all(streams.map((stream) => appendSurely(store, stream, -1, newEvents(1))));
    expect(new Set(results.map(({ position }) => position)).size).toBe(500);
  });

  it('follows the log without gaps or repetitions, whatever happens to the subscription', async () => {
    const before = await store.head('core');
    const { seen, stop } = follow(store, before);
    const stream = newStream();
    const written: string[] = [];
    const append = async (count: number) => {
      const { events } = await appendSurely(store, stream, written.length - 1, newEvents(count));
      written.push(...ids(events));
    };
    const standIn = node();
    const troubles: (() => unknown)[] = [
      () => standIn.dropSubscriptions(),
      () => standIn.dropSubscriptions('too slow'),
      () => standIn.cut(),
      () => (standIn.subscriptions = 'twice'),
      () => standIn.dropSubscriptions(),
      () => standIn.restart(),
      () => standIn.silenceSubscriptions(),
    ];
    for (const trouble of troubles) {
      await append(20);
      await trouble();
      await append(20);
      await until(() => seen.length >= written.length);
    }
    expect(ids(seen)).toEqual(written);
    await stop();
  });

  it('skips nothing when a restored subscription has much to catch up with', async () => {
    const stream = newStream();
    const { position, events } = await store.append(stream, 'no_stream', newEvents(1));
    const { seen, stop } = follow(store, position);
    await store.append(stream, 0, newEvents(1));
    await until(() => seen.length === 1);
    const { log } = node();
    const model = log.records.findLast((record) => record.id === events[0]?.id);
    const added = newEvents(3_000);
    // No await lies between the two steps, so that no event arrives before the subscription is restored.
    node().dropSubscriptions();
    if (model) for (const [index, { id }] of added.entries()) log.append(model.stream, 1 + index, [{ ...model, id }]);
    await until(() => seen.length >= 1 + added.length);
    expect(ids(seen.slice(1))).toEqual(ids(added));
    await stop();
  });

  it('reads and follows only the leader', async () => {
    const { seen, stop } = follow(store, await store.head('core'));
    // If few events of more than a page are of the class, the server is asked to filter them.
    for (let n = 0; n < 3; n++) await store.append(newStream(), 'no_stream', newEvents(500));
    await until(() => seen.length === 1_500);
    const { events } = await store.append(newStream().replace('agent', 'log'), 'no_stream', newEvents(1));
    expect(ids(await everything(store, { eventClass: 'log' }))).toContain(events[0]?.id);
    await stop();
    expect(node().forAnyNode).toBe(0);
  });

  it('throws when it reads up to an end that the node does not have', async () => {
    const standIn = node();
    await store.append(newStream(), 'no_stream', newEvents(2));
    const end = await store.head('core');
    standIn.deposedAt = standIn.log.records.at(-2)?.position ?? null;
    try {
      const read = async () => {
        for await (const batch of store.readBulk(START, end, core)) void batch;
      };
      await expect(read()).rejects.toBeInstanceOf(EventStoreUnavailable);
    } finally {
      standIn.deposedAt = null;
    }
  });

  it('throws when the node that it reads from lags in the middle of the reading', async () => {
    const standIn = node();
    const before = await store.head('core');
    const stream = newStream();
    for (const revision of [-1, 499, 999]) await store.append(stream, revision < 0 ? 'no_stream' : revision, newEvents(500));
    const reading = store.readAll(before, core)[Symbol.asyncIterator]();
    const read = ((await reading.next()).value ?? []) as StoredEvent[];
    expect([read.length > 0, read.length < 1_500]).toEqual([true, true]);
    standIn.deposedAt = standIn.log.records.findLast(({ id }) => id === read.at(-1)?.id)?.position ?? null;
    try {
      await expect(reading.next()).rejects.toBeInstanceOf(EventStoreUnavailable);
    } finally {
      standIn.deposedAt = null;
    }
  });

  it('loses and duplicates no event, and reports no false conflict, after many faults under 16 writers', async () => {
    const standIn = node();
    const before = await store.head('core');
    const { seen, stop } = follow(store, before);
    const writers = new Writers(store, 16);
    const further = async (count: number) => {
      const goal = writers.total + count;
      await until(() => {
        writers.check();
        return writers.total >= goal;
      });
    };
    const troubles: (() => unknown)[] = [
      () => standIn.cut(),
      () => standIn.restart(),
      () => failing(standIn, 'fails_stored', 'fails', 'fails_stored', 'silent_stored', 'deadline_stored', 'times_out_stored'),
      () => standIn.dropSubscriptions('too slow'),
      () => (standIn.onRead = () => (Math.random() < 0.2 ? 'fails' : 'ok')),
      () => (standIn.onRead = () => (Math.random() < 0.2 ? 'twice' : 'ok')),
      () => standIn.restart(),
    ];
    for (const trouble of troubles) {
      writers.resetGap();
      await trouble();
      await further(300);
      expect(writers.longestGap).toBeLessThan(10_000);
    }
    standIn.onRead = () => 'ok';
    await writers.stop();
    const stored = await everything(store, core, before);
    expect(stored).toHaveLength(writers.total);
    for (const [stream, acknowledged] of writers.acknowledged)
      expect(ids(stored.filter((event) => event.stream === stream))).toEqual(acknowledged);
    await until(() => seen.length >= stored.length);
    expect(ids(seen)).toEqual(ids(stored));
    await stop();
  });
});

describe('An EventStoreDB cluster that responds late', () => {
  const { node, open, standIns } = given(3);
  let store: EventStoreDbEventStore;
  let number = 0;
  const append = () => store.append(`agent-l${(number += 1)}`, 'no_stream', newEvents(1));
  const late = () => expect(append()).rejects.toBeInstanceOf(OutcomeUnknown);
  /** Returns how often clients looked for the leader: each does so once, before its first call. */
  const searches = () => standIns.reduce((sum, standIn) => sum + standIn.searches, 0);
  beforeAll(async () => {
    store = open(1_500);
    await append();
  });

  it('is called by the same client again after a single late call', async () => {
    const before = searches();
    for (let time = 0; time < 2; time += 1) {
      failing(node(), 'silent');
      await late();
      await append();
    }
    expect(searches()).toBe(before);
  });

  it('is called by a new client, which searches for the leader, once another call was late too', async () => {
    const before = searches();
    failing(node(), 'silent', 'silent');
    await Promise.all([late(), late()]);
    await append();
    expect(searches()).toBeGreaterThan(before);
  });
});

describe('An EventStoreDB cluster that changes its leader', () => {
  const { node, open, standIns } = given(3);
  let store: EventStoreDbEventStore;
  beforeAll(() => {
    store = open();
  });

  it('is followed across changes of leader', async () => {
    const { seen, stop } = follow(store);
    const writers = new Writers(store, 8);
    await until(() => writers.total > 100);
    writers.resetGap();
    // The leader resigned: its followers know the new one.
    elect(standIns, node(1));
    let goal = writers.total + 200;
    await until(() => (writers.check(), writers.total > goal));
    // The leader was killed.
    await node(1).kill();
    elect(standIns, node(2));
    goal = writers.total + 200;
    await until(() => (writers.check(), writers.total > goal));
    await writers.stop();
    expect(writers.longestGap).toBeLessThan(10_000);
    const stored = await everything(store);
    expect(stored).toHaveLength(writers.total);
    await until(() => seen.length >= stored.length);
    expect(ids(seen)).toEqual(ids(stored));
    await stop();
    await node(1).restart();
  });

  it('is not believed if a deposed leader reports a conflict', async () => {
    elect(standIns, node(0));
    const stream = 'agent-deposed';
    await appendSurely(store, stream, -1, newEvents(1));
    const { log } = node();
    elect(standIns, node(2));
    Object.assign(node(0), { leader: null, deposedAt: log.end });
    // Another replica, which knows the new leader, has appended; this one still uses the old leader.
    const last = log.records.at(-1);
    if (last) log.append(last.stream, 0, [{ ...last, id: newEvent().id }]);
    const appended = appendSurely(store, stream, 1, [newEvent()]);
    setTimeout(() => Object.assign(node(0), { deposedAt: null, leader: node(2) }), 1_200);
    expect(await appended).toMatchObject({ revision: 2 });
  });
});
