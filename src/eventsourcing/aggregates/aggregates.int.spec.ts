import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';
import { collect } from '../../../test/support/event-store-contract.ts';
import { openAggregates, openStore } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Aggregates } from './aggregates.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import { defineEvent, type Decider } from '../event-store/event-definition.ts';
import {
  EventStoreUnavailable,
  OutcomeUnknown,
  START,
  StreamClosed,
  WrongExpectedRevision,
  type AppendResult,
  type EventStore,
  type NewEvent,
} from '../event-store/event-store.ts';

type Counted = { type: 'Counted'; data: { by: number } };

const counter: Decider<number, { by: number; limit?: number }, Counted> = {
  initialState: () => 0,
  decide({ by, limit = Infinity }, state) {
    if (state + by > limit) throw new ProblemError('invalid_state', 'over the limit');
    return by === 0 ? [] : [{ type: 'Counted', data: { by } }];
  },
  evolve: (state, { data }) => state + data.by,
};

const catalogue = new EventCatalogue([
  defineEvent<{ by: number }>()('Counted', ({ by }) => `Counted ${by}`, 2, { 1: ({ n }) => ({ by: n ?? 0 }) }),
]);
const context = systemContext('test', 'account-1', 'cause-1');

describe('Commands on a stream', () => {
  let place: TestDatabase;
  let database: Database;
  let store: EventStore;
  let aggregates: Aggregates;
  let number = 0;
  const newStream = () => `counter-${(number += 1)}`;

  beforeAll(async () => {
    place = await freshDatabase();
    database = await openDatabase({ url: place.url, allowUnsafe: true });
    store = openStore(database, place.url, catalogue);
    aggregates = openAggregates(database, store, catalogue).aggregates;
  });
  afterAll(async () => {
    await store.close();
    await database.close();
    await place.drop();
  });

  /** Opens the store with another outcome for its first appends. */
  function failing(...failures: ((append: () => Promise<AppendResult>, stream: string) => Promise<AppendResult>)[]): Aggregates {
    const troubled: EventStore = Object.create(store, {
      append: {
        value: (stream: string, expected: number | 'no_stream', events: NewEvent[]) => {
          const failure = failures.shift();
          const append = () => store.append(stream, expected, events);
          return failure ? failure(append, stream) : append();
        },
      },
      readStream: { value: (...read: Parameters<EventStore['readStream']>) => store.readStream(...read) },
    });
    return openAggregates(database, troubled, catalogue).aggregates;
  }

  it('appends the decided events with actor and cause, and returns the state before and after', async () => {
    const stream = newStream();
    const first = await aggregates.execute(stream, counter, { by: 3 }, context);
    expect(first).toMatchObject({ before: 0, state: 3, revision: 0, events: [{ type: 'Counted', data: { by: 3 }, schemaVersion: 2 }] });
    const second = await aggregates.execute(stream, counter, { by: 4 }, context);
    expect(second).toMatchObject({ before: 3, state: 7, revision: 1 });
    const stored = await collect(store.readStream(stream));
    expect(stored).toEqual([...first.events, ...second.events]);
    expect(stored[0]?.metadata).toEqual({
      actor: { kind: 'system', id: 'test', name: 'test' },
      account_id: 'account-1',
      request_id: null,
      causation_id: 'cause-1',
      ip: null,
    });
    const [createdAt, changedAt] = stored.map(({ at }) => at);
    expect(await aggregates.load(stream, counter)).toEqual({ state: 7, createdAt, changedAt, revision: 1, position: second.position });
  });

  it('appends nothing if nothing changes, or if a rule is broken', async () => {
    const stream = newStream();
    expect(await aggregates.execute(stream, counter, { by: 0 }, context)).toEqual({
      before: 0,
      state: 0,
      createdAt: '',
      changedAt: '',
      events: [],
      revision: -1,
      position: START,
    });
    const { position, createdAt, changedAt } = await aggregates.execute(stream, counter, { by: 1 }, context);
    expect(await aggregates.execute(stream, counter, { by: 0 }, context)).toEqual({
      before: 1,
      state: 1,
      createdAt,
      changedAt,
      events: [],
      revision: 0,
      position,
    });
    await expect(aggregates.execute(stream, counter, { by: 9, limit: 5 }, context)).rejects.toMatchObject({ code: 'invalid_state' });
    expect(await collect(store.readStream(stream))).toHaveLength(1);
  });

  it('enforces a rule although two replicas decide at the same time', async () => {
    const stream = newStream();
    const other = openAggregates(database, store, catalogue).aggregates;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => (i % 2 ? aggregates : other).execute(stream, counter, { by: 1, limit: 25 }, context)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(25);
    expect((await other.load(stream, counter)).state).toBe(25);
    expect((await aggregates.load(stream, counter)).state).toBe(25);
  });

  it('refuses a command for a revision that is not the current one', async () => {
    const stream = newStream();
    await aggregates.execute(stream, counter, { by: 1 }, context, { expectedRevision: -1 });
    await aggregates.execute(stream, counter, { by: 1 }, context, { expectedRevision: 0 });
    await expect(aggregates.execute(stream, counter, { by: 1 }, context, { expectedRevision: 0 })).rejects.toMatchObject({
      code: 'revision_mismatch',
    });
  });

  it('writes once if the response is lost', async () => {
    const stream = newStream();
    const lost = failing(
      async (append) => {
        await append();
        throw new OutcomeUnknown(stream, new Error('reset'));
      },
      () => Promise.reject(new EventStoreUnavailable(new Error('refused'))),
    );
    expect(await lost.execute(stream, counter, { by: 5 }, context)).toMatchObject({ state: 5, revision: 0 });
    const unsent = failing(() => Promise.reject(new OutcomeUnknown(stream, new Error('reset'))));
    expect(await unsent.execute(stream, counter, { by: 5 }, context)).toMatchObject({ state: 10, revision: 1 });
    expect(await collect(store.readStream(stream))).toHaveLength(2);
  });

  it('reports that a change may have been stored if the answer to any attempt was lost', async () => {
    const stream = newStream();
    const clock = jest.spyOn(performance, 'now');
    const began = performance.now();
    const lost = failing(
      async (append) => {
        await append();
        throw new OutcomeUnknown(stream, new Error('reset'));
      },
      () => {
        clock.mockReturnValue(began + 60_000);
        return Promise.reject(new EventStoreUnavailable(new Error('refused')));
      },
    );
    const [outcome] = await Promise.allSettled([lost.execute(stream, counter, { by: 5 }, context)]);
    clock.mockRestore();
    expect(outcome).toMatchObject({
      reason: { code: 'event_store_unavailable', message: expect.stringMatching(/may or may not .* Idempotency-Key/) },
    });
    expect(await collect(store.readStream(stream))).toHaveLength(1);
  });

  it('reports that a part was stored if an earlier step of the same request was', async () => {
    const request = { ...context };
    await aggregates.execute(newStream(), counter, { by: 1 }, request);
    const refused = () => failing(() => Promise.reject(new EventStoreUnavailable(new Error('refused'))));
    const attempt = (its: typeof context) => refused().execute(newStream(), counter, { by: 1 }, its);
    await expect(attempt(request)).rejects.toThrow(/a part of the change has been stored/);
    await expect(attempt({ ...context, writtenUpTo: undefined })).rejects.toThrow(/nothing was changed/);
  });

  it('reports an unavailable store and a closed stream', async () => {
    const stream = newStream();
    const refused = failing(() => Promise.reject(new EventStoreUnavailable(new Error('refused'))));
    await expect(refused.execute(stream, counter, { by: 1 }, context)).rejects.toMatchObject({
      code: 'event_store_unavailable',
      facts: { retryAfterSeconds: 1 },
    });
    expect(await refused.execute(stream, counter, { by: 1 }, context)).toMatchObject({ state: 1 });
    await store.closeStream(stream, 0);
    await expect(aggregates.execute(stream, counter, { by: 1 }, context)).rejects.toBeInstanceOf(StreamClosed);
  });

  it('does not keep a caller waiting for long if every repeat hangs', async () => {
    const began = performance.now();
    let hung = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => began + hung * 4_000);
    const hanging = failing(
      ...Array.from({ length: 8 }, () => (_: unknown, stream: string) => {
        hung += 1;
        return Promise.reject(new OutcomeUnknown(stream, new Error('no answer within 4000 ms')));
      }),
    );
    const [outcome] = await Promise.allSettled([hanging.execute(newStream(), counter, { by: 1 }, context)]);
    clock.mockRestore();
    expect(outcome).toMatchObject({ reason: { code: 'event_store_unavailable', message: expect.stringContaining('may or may not') } });
    expect(hung).toBe(3);
  });

  it('gives up after a bounded number of lost races', async () => {
    let tries = 0;
    const loser = failing(
      ...Array.from({ length: 1_000 }, () => (_: unknown, stream: string) => {
        tries += 1;
        return Promise.reject(new WrongExpectedRevision(stream, 'no_stream', 0));
      }),
    );
    await expect(loser.execute(newStream(), counter, { by: 1 }, context)).rejects.toMatchObject({ code: 'event_store_unavailable' });
    expect(tries).toBe(20);
  });

  it('records a fact with a derived id only once', async () => {
    const stream = newStream();
    const id = uuidv5('counted', '7d6f0f5a-6f3e-4b7e-9d0a-2d2f7b0a9f11');
    const record = () => aggregates.execute(stream, counter, { by: 2 }, context, { eventId: () => id });
    expect(await record()).toMatchObject({ state: 2, revision: 0 });
    await aggregates.execute(stream, counter, { by: 1 }, context);
    expect(await record()).toMatchObject({ state: 3, revision: 1, events: [] });
  });

  it('reads events of older versions as if they had been written today', async () => {
    const stream = newStream();
    const older = openStore(database, place.url, new EventCatalogue([defineEvent<{ n: number }>()('Counted', ({ n }) => `Counted ${n}`)]));
    const metadata = { actor: context.actor, account_id: null, request_id: null, causation_id: null, ip: null };
    await older.append(stream, 'no_stream', [{ id: uuidv7(), type: 'Counted', schemaVersion: 1, data: { n: 41 }, metadata }]);
    await older.close();
    expect(await aggregates.execute(stream, counter, { by: 1 }, context)).toMatchObject({ before: 41, state: 42, revision: 1 });
  });
});
