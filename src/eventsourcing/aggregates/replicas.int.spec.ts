import fc from 'fast-check';
import { v4 as uuidv4, v5 as uuidv5 } from 'uuid';
import { collect } from '../../../test/support/event-store-contract.ts';
import { openAggregates, openStore } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { defineEvent, type Decider } from '../event-store/event-definition.ts';
import type { EventStore, StoredEvent } from '../event-store/event-store.ts';

interface Sum {
  count: number;
  total: number;
}
type Added = { type: 'Added'; data: { by: number; key: string | null } };
interface Add {
  by: number;
  key: string | null;
}

const LIMIT = 40;
const NAMESPACE = '0f5c2f3e-54a9-4d0b-8f6e-9b8a1d7c6e55';
const context = systemContext('test', 'account-1');
const catalogue = new EventCatalogue([defineEvent<Added['data']>()('Added', ({ by }) => `Added ${by}`)]);

/**
 * A decider that is not idempotent by itself: only the ids of records prevent a repeat from adding a second event. A refusal names the
 * state that it is based on.
 */
const sum: Decider<Sum, Add, Added> = {
  initialState: () => ({ count: 0, total: 0 }),
  decide({ by, key }, { count, total }) {
    if (by === 0) return [];
    if (total + by > LIMIT) throw new ProblemError('invalid_state', 'over the limit', { members: { count } });
    return [{ type: 'Added', data: { by, key } }];
  },
  evolve: ({ count, total }, { data }) => ({ count: count + 1, total: total + data.by }),
};

const folded = (events: StoredEvent[], count: number): Sum =>
  events.slice(0, count).reduce((state, event) => sum.evolve(state, event as unknown as Added), sum.initialState());

type Step = { replica: number; stream: number } & (
  | { kind: 'add'; by: number }
  | { kind: 'record'; by: number; key: string }
  | { kind: 'if match'; by: number; behind: number }
  | { kind: 'load' | 'evict' | 'gap' }
);

const place = { replica: fc.nat(2), stream: fc.nat(1) };
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ ...place, kind: fc.constant('add' as const), by: fc.integer({ min: -4, max: 9 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      ...place,
      kind: fc.constant('record' as const),
      by: fc.integer({ min: 1, max: 3 }),
      key: fc.constantFrom('a', 'b', 'c', 'd'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ ...place, kind: fc.constant('if match' as const), by: fc.integer({ min: -4, max: 4 }), behind: fc.nat(1) }),
  },
  { weight: 5, arbitrary: fc.record({ ...place, kind: fc.constant('load' as const) }) },
  { weight: 1, arbitrary: fc.record({ ...place, kind: fc.constantFrom('evict' as const, 'gap' as const) }) },
);

/** The outcome of a step, with the number of the stream's events that were acknowledged before it began. */
interface Outcome {
  step: Step;
  acknowledged: number;
  expected: number | undefined;
  /** The state that was returned, or that a refusal was based on, as far as the result shows. */
  state: Sum | null;
  count: number | null;
  before: Sum | null;
  events: StoredEvent[];
  refused: string | null;
}

describe('Several replicas on one log', () => {
  let database: Database;
  let testDatabase: TestDatabase;
  const replicas: (ReturnType<typeof openAggregates> & { store: EventStore })[] = [];

  beforeAll(async () => {
    testDatabase = await freshDatabase();
    database = await openDatabase({ url: testDatabase.url, allowUnsafe: true });
    for (let count = 0; count < 3; count += 1) {
      const store = openStore(database, testDatabase.url, catalogue);
      replicas.push({ ...openAggregates(database, store, catalogue), store });
    }
    for (const { follower } of replicas) await follower.onApplicationBootstrap();
  });
  afterAll(async () => {
    for (const { store } of replicas) await store.close();
    await database.close();
    await testDatabase.drop();
  });

  async function run(did: Step, streams: string[], acknowledged: number[]): Promise<Outcome> {
    const { aggregates, states, follower } = replicas[did.replica] as (typeof replicas)[number];
    const stream = streams[did.stream] as string;
    const known = acknowledged[did.stream] as number;
    const outcome: Outcome = {
      step: did,
      acknowledged: known,
      expected: undefined,
      state: null,
      count: null,
      before: null,
      events: [],
      refused: null,
    };
    const execute = async (add: Add, expectedRevision?: number) => {
      const id = uuidv5(`${stream} ${add.key}`, NAMESPACE);
      try {
        const done = await aggregates.execute(stream, sum, add, context, {
          ...(add.key === null ? {} : { eventId: () => id }),
          ...(expectedRevision === undefined ? {} : { expectedRevision }),
        });
        Object.assign(outcome, { state: done.state, count: done.revision + 1, before: done.before, events: done.events });
        acknowledged[did.stream] = Math.max(acknowledged[did.stream] as number, done.revision + 1);
      } catch (error) {
        if (!(error instanceof ProblemError)) throw error;
        outcome.refused = error.code;
        outcome.count = (error.facts.members?.count as number | undefined) ?? null;
      }
    };
    if (did.kind === 'add') await execute({ by: did.by, key: null });
    else if (did.kind === 'record') await execute({ by: did.by, key: did.key });
    else if (did.kind === 'if match') {
      outcome.expected = known - 1 - did.behind;
      await execute({ by: did.by, key: null }, outcome.expected);
    } else if (did.kind === 'load') {
      const { state, revision } = await aggregates.load(stream, sum);
      Object.assign(outcome, { state, count: revision + 1 });
    } else if (did.kind === 'evict') states.evict(stream);
    else await follower.onApplicationBootstrap();
    return outcome;
  }

  /**
   * Checks that each result is what a single process would have returned at some moment between the call and the end of the group. A
   * replica that has not received a record yet and writes it again by its id gets the result of the first attempt.
   */
  function check(outcome: Outcome, events: StoredEvent[], isAlone: boolean): void {
    const { step: did, acknowledged, expected, state, count, before, refused } = outcome;
    const isRepeat = did.kind === 'record' && outcome.events.some(({ revision }) => revision < acknowledged);
    if (count !== null) {
      if (!isRepeat) expect(count).toBeGreaterThanOrEqual(acknowledged);
      if (state !== null) expect(state).toEqual(folded(events, count));
    }
    if (outcome.events.length > 0) {
      expect(outcome.events).toEqual(events.slice((count ?? 0) - outcome.events.length, count ?? 0));
      expect(before).toEqual(folded(events, (count ?? 0) - outcome.events.length));
      if (expected !== undefined) expect(outcome.events[0]?.revision).toBe(expected + 1);
    }
    if (refused === 'invalid_state') expect(folded(events, count ?? 0).total + (did as Add).by).toBeGreaterThan(LIMIT);
    if (isAlone && expected !== undefined && refused === 'revision_mismatch') expect(expected).not.toBe(acknowledged - 1);
    if (isAlone && count !== null && !isRepeat) expect(count).toBe(acknowledged + outcome.events.length);
    if (isAlone && isRepeat) expect(count).toBeLessThanOrEqual(acknowledged);
  }

  it('answers like one process that runs one command after another', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 14 }), async (groups) => {
        const streams = [`sum-${uuidv4()}`, `sum-${uuidv4()}`];
        const acknowledged = [0, 0];
        for (const group of groups) {
          const outcomes = await Promise.all(group.map((did) => run(did, streams, acknowledged)));
          const written = await Promise.all(
            streams.map((stream) => collect((replicas[0] as (typeof replicas)[number]).store.readStream(stream))),
          );
          for (const outcome of outcomes) check(outcome, written[outcome.step.stream] as StoredEvent[], group.length === 1);
          for (const events of written) {
            const keys = events.map(({ data }) => data.key).filter((key) => key !== null);
            expect(new Set(keys).size).toBe(keys.length);
            expect(folded(events, events.length).total).toBeLessThanOrEqual(LIMIT);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('returns the result of the first attempt for a record that another replica has stored already, and adds nothing', async () => {
    const [first] = replicas as [(typeof replicas)[number]];
    const stream = `sum-${uuidv4()}`;
    const record = { eventId: () => uuidv5(stream, NAMESPACE) };
    // This replica does not follow the log, so it does not receive what the other one writes.
    const late = openAggregates(database, first.store, catalogue);
    await late.aggregates.execute(stream, sum, { by: 1, key: null }, context);
    const before = await first.aggregates.execute(stream, sum, { by: 2, key: 'a' }, context, record);
    await first.aggregates.execute(stream, sum, { by: 4, key: null }, context);
    expect(await late.aggregates.execute(stream, sum, { by: 2, key: 'a' }, context, record)).toEqual(before);
    expect(await late.aggregates.load(stream, sum)).toMatchObject({ state: { count: 3, total: 7 }, revision: 2 });
  });

  it('writes with one append, without reading the stream, if no other event came in between', async () => {
    const { aggregates, store } = replicas[0] as (typeof replicas)[number];
    const stream = `sum-${uuidv4()}`;
    await aggregates.execute(stream, sum, { by: 1, key: null }, context);
    const read = jest.spyOn(store, 'readStream');
    const head = jest.spyOn(store, 'head');
    await aggregates.execute(stream, sum, { by: 1, key: 'a' }, context, { eventId: () => uuidv5(stream, NAMESPACE) });
    expect([read.mock.calls.length, head.mock.calls.length]).toEqual([0, 0]);
    await Promise.all(Array.from({ length: 20 }, () => aggregates.load(stream, sum)));
    expect(read).not.toHaveBeenCalled();
    expect(head.mock.calls.length).toBeLessThanOrEqual(2);
    jest.restoreAllMocks();
  });
});
