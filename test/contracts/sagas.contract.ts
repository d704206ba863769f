import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { sampleEvent } from '../support/sample-event.ts';
import { appendTo, eventually, everything, openLog, operate, type OpenedLog } from '../support/log.ts';
import { freshDatabase, type TestDatabase } from '../support/postgres.ts';
import { SagaProcess } from '../support/saga-process.ts';
import type { Decider, JsonObject } from '../../src/eventsourcing/event-store/event-definition.ts';
import { idOf } from '../../src/eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { SAGA_STEP_CHANNEL, type Saga, type SagaStep } from '../../src/eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../src/eventsourcing/sagas/saga-step.ts';

/** Registers the tests of sagas, with the log in the store that the environment names. */
export function sagaContract(): void {
  let test: TestDatabase;
  let log: OpenedLog;
  const processes: SagaProcess[] = [];

  const start = async (saga: Saga, prepare: (process: SagaProcess) => void = () => undefined) => {
    const started = new SagaProcess(await openLog(test.url));
    processes.push(started);
    prepare(started);
    started.sagas.register(saga);
    await started.start();
    return started;
  };
  const stop = async (stopped: SagaProcess) => {
    processes.splice(processes.indexOf(stopped), 1);
    await stopped.stop();
  };
  /** Returns a saga of the harbour that reconciles each boat with `reconcile`. */
  const harbour = (reconcile: Saga['reconcile'], change: Partial<Saga> = {}): Saga => ({
    name: 'harbour',
    filter: { ...everything, categories: ['boat'] },
    concurrency: 4,
    keyOf: (event) => idOf(event.stream),
    reconcile,
    resync: async () => [],
    ...change,
  });
  const deadlines = () => log.database.query<{ key: string; due_at: Date }>('select key, due_at from saga_deadlines order by key');
  /** Waits until the saga has its lease and listens, by a probe boat that it must notice. */
  const listening = async (seen: string[]) => {
    let n = 0;
    await eventually(async () => {
      // The last probe must be seen too, so that none is seen later.
      if (seen.some((key) => key.startsWith('probe'))) return seen.includes(`probe${n}`);
      await appendTo(log.store, `boat-probe${(n += 1)}`, sampleEvent('BoatArrived'));
      return false;
    }, 'the saga');
    seen.length = 0;
  };

  beforeEach(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
  });

  afterEach(async () => {
    for (const each of processes.splice(0)) await each.stop();
    await log.close();
    await test.drop();
  });

  it('is woken by events of its streams, with their key', async () => {
    const seen: string[] = [];
    await start(harbour(async (key) => (seen.push(key), null)));
    await listening(seen);
    await appendTo(log.store, 'tide-1', sampleEvent('TideTurned'));
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await eventually(() => seen.includes('Ark'));
    expect(seen).toEqual(['Ark']);
  });

  it('continues with other events after one whose key it can’t determine', async () => {
    const seen: string[] = [];
    const keyOf: Saga['keyOf'] = (event) => {
      if (event.type === 'BoatLeft') throw new Error('which boat?');
      return idOf(event.stream);
    };
    await start(harbour(async (key) => (seen.push(key), null), { keyOf }));
    await listening(seen);
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatLeft'), sampleEvent('BoatArrived'));
    await eventually(() => seen.includes('Ark'));
  });

  describe('at its start', () => {
    const boats = ({ projections }: SagaProcess) =>
      projections.register({
        name: 'boats',
        version: 1,
        filter: { ...everything, categories: ['boat'] },
        table: { key: 'name', columns: { name: 'text' }, indexes: {} },
        keys: () => [],
        project: (event, rows) => rows.set(idOf(event.stream), { name: idOf(event.stream) }),
      });
    const resync = async () =>
      (await log.database.query<{ name: string }>('select name from boats_v1')).map(({ name }) => ({ key: name, account: null }));

    it('reconciles the keys that resync returns', async () => {
      await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
      const seen: string[] = [];
      await start(
        harbour(async (key) => (seen.push(key), null), { resync }),
        boats,
      );
      await eventually(() => seen.includes('Ark'));
    });

    it('reconciles keys that the read models do not show yet, without waiting for them', async () => {
      await stop(
        await start(
          harbour(async () => null),
          boats,
        ),
      );
      await log.database.transaction(async (client) => {
        // The lock lets rows be read, but no projection can write them.
        await client.query('lock table boats_v1 in exclusive mode');
        await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
        const seen: string[] = [];
        await start(
          harbour(async (key) => (seen.push(key), null), { resync }),
          boats,
        );
        await eventually(() => seen.includes('Ark'));
        expect(await resync()).toEqual([]);
      });
    });

    it('repeats a failed resync soon', async () => {
      let asked = 0;
      await start(
        harbour(async () => null, {
          resync: () => ((asked += 1) === 1 ? Promise.reject(new Error('not yet')) : Promise.resolve([])),
        }),
      );
      await eventually(() => asked > 1);
    });
  });

  it('is also woken from outside, and does not run before that call returns', async () => {
    const seen: string[] = [];
    const { sagas } = await start(harbour(async (key) => (seen.push(key), null)));
    await listening(seen);
    sagas.wake('harbour', 'Ark');
    expect(seen).toEqual([]);
    await eventually(() => seen.length === 1);
    expect(() => sagas.wake('nobody', 'Ark')).toThrow('there is no saga nobody');
  });

  it('gets the position up to which the log was followed when its keys were taken over, but not after a failure', async () => {
    const seen: string[] = [];
    const told: (string | undefined)[] = [];
    const { position } = await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    const process = await start(
      harbour(async (key, { seenUpTo }) => {
        seen.push(key);
        if (key !== 'Beagle') return null;
        told.push(seenUpTo);
        if (told.length === 1) throw new Error('a storm');
        return null;
      }),
    );
    await listening(seen);
    await appendTo(log.store, 'boat-Beagle', sampleEvent('BoatArrived'));
    await eventually(() => told.length === 2, 'the second pass');
    expect(told).toEqual([expect.any(String), undefined]);
    expect((told[0] ?? '') >= position).toBe(true);
    process.sagas.wake('harbour', 'Beagle');
    await eventually(() => told.length === 3, 'the third pass');
    expect(told[2]).toBe(told[0]);
  });

  it('does not repeat a step that another process recorded, although the new process reads it late', async () => {
    const loading: Decider<boolean, null, { type: 'BoatLoaded'; data: JsonObject }> = {
      initialState: () => false,
      decide: () => [{ type: 'BoatLoaded', data: {} }],
      evolve: (isLoaded, { type }) => isLoaded || type === 'BoatLoaded',
    };
    const loads: string[] = [];
    const passes: string[] = [];
    const loader = (name: string, process: () => SagaProcess) => {
      const reconcile: Saga['reconcile'] = async (_key, { seenUpTo }) => {
        const { state: isLoaded } = await process().aggregates.load('boat-Ark', loading, seenUpTo);
        if (!isLoaded) {
          loads.push(name);
          await process().aggregates.execute('boat-Ark', loading, null, systemContext('harbour', null));
        }
        passes.push(name);
        return null;
      };
      return harbour(reconcile, { resync: async () => [{ key: 'Ark', account: null }] });
    };
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    const second = new SagaProcess(await openLog(test.url));
    processes.push(second);
    const { store } = second.log;
    const follow = store.subscribe.bind(store);
    let hearing = Promise.resolve();
    store.subscribe = (after, filter, onBatch) => follow(after, filter, async (...batch) => hearing.then(() => onBatch(...batch)));
    second.sagas.register(loader('second', () => second));
    let hearAgain = () => {};
    await second.start(async () => {
      // Its state of the boat is from before the load, and it receives no events for a while.
      expect(await second.aggregates.load('boat-Ark', loading)).toMatchObject({ state: false, revision: 0 });
      hearing = new Promise((resolve) => (hearAgain = resolve));
      const first = await start(loader('first', () => processes.at(-1) as SagaProcess));
      await eventually(() => passes.includes('first'), 'the load');
      await stop(first);
    });
    await eventually(() => second.sagas.shardCount === 64, 'the takeover');
    // A pass that did not wait for unread events would have run by then.
    for (let looks = 0; looks < 50 && !loads.includes('second'); looks += 1) await log.database.query('select 1');
    hearAgain();
    await eventually(() => passes.includes('second'), 'the pass of the second process');
    expect(loads).toEqual(['first']);
  });

  it('tries again after a failure', async () => {
    let runs = 0;
    const { sagas } = await start(
      harbour(async (key) => {
        if (key === 'Ark' && (runs += 1) < 2) throw new Error('no wind');
        return null;
      }),
    );
    await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
    await eventually(() => (sagas.wake('harbour', 'Ark'), runs >= 2));
  });

  describe('that requests a later wake', () => {
    it('is woken then, without any event, and its deadline is deleted once none is requested', async () => {
      const seen: string[] = [];
      await start(
        harbour(async (key) => {
          seen.push(key);
          return key === 'Ark' && seen.filter((each) => each === 'Ark').length < 3 ? new Date(Date.now() + 50) : null;
        }),
      );
      await listening(seen);
      await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
      await eventually(() => seen.length === 3);
      await eventually(async () => (await deadlines()).length === 0);
      expect(seen).toEqual(['Ark', 'Ark', 'Ark']);
    });

    it('is woken by the next process if this one ends before', async () => {
      const soon = new Date(Date.now() + 3_600_000);
      const seen: string[] = [];
      const first = await start(harbour(async (key) => (seen.push(key), key === 'Ark' ? soon : null)));
      await listening(seen);
      await appendTo(log.store, 'boat-Ark', sampleEvent('BoatArrived'));
      await eventually(async () => (await deadlines()).length === 1);
      expect(await deadlines()).toEqual([{ key: 'Ark', due_at: soon }]);
      await stop(first);
      const later: string[] = [];
      await start(
        harbour(async (key) => (later.push(key), null)),
        ({ clock }) => (clock.ahead = 3_600_001),
      );
      await eventually(() => later.includes('Ark'));
      await eventually(async () => (await deadlines()).length === 0);
    });

    it('keeps an overdue deadline until a run has replaced it, so that a crash in that run loses nothing', async () => {
      await log.database.query(`insert into saga_deadlines values ('harbour', 'Ark', now() - interval '1 minute')`);
      let running = false;
      const first = await start(
        harbour(async (_key, { signal }) => {
          running = true;
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
          return null;
        }),
      );
      await eventually(() => running);
      await stop(first);
      expect(await deadlines()).toHaveLength(1);
    });

    it('writes nothing if its deadline does not change', async () => {
      const due = new Date(Date.now() + 3_600_000);
      let runs = 0;
      const { sagas } = await start(harbour(async () => ((runs += 1), due)));
      await eventually(() => (sagas.wake('harbour', 'Ark'), runs > 0));
      const written = async () => (await log.database.query<{ xmin: string }>('select xmin::text from saga_deadlines'))[0]?.xmin;
      const first = await eventually(written);
      const before = runs;
      await eventually(() => (sagas.wake('harbour', 'Ark'), runs > before + 5));
      await eventually(() => sagas.stats().harbour?.working === 0);
      expect(await written()).toBe(first);
    });
  });

  it('is aborted when the service stops, which waits for it', async () => {
    let told = false;
    let ended = false;
    const process = await start(
      harbour(async (_key, { signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        told = true;
        await log.database.query('select 1');
        ended = true;
        return null;
      }),
    );
    await eventually(() => (process.sagas.wake('harbour', 'Ark'), process.sagas.stats().harbour?.working === 1));
    await stop(process);
    expect([told, ended]).toEqual([true, true]);
  });

  it('a pass is aborted when its replica loses the lease; the next holder reconciles the key again, and the former one can’t set a deadline any more', async () => {
    const runs: { key: string; signal: AbortSignal }[] = [];
    const late = new Date(Date.now() + 3_600_000);
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const saga = () =>
      harbour(
        async (key, { signal }) => {
          runs.push({ key, signal });
          if (runs.length > 1) return null;
          await held;
          return late;
        },
        { resync: async () => [{ key: 'Ark', account: null }] },
      );
    const one = await start(saga());
    await eventually(() => runs.length === 1);
    await start(saga());
    one.sagas.wake('harbour', 'Beagle');
    await operate(
      test.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name in (select owner from consumer_leases)',
    );
    await eventually(() => runs[0]?.signal.aborted);
    // A replica that gets its own lease back does not begin another pass over the key until the old pass has ended.
    release();
    await eventually(() => runs.filter(({ key }) => key === 'Ark').length > 1);
    await eventually(async () => (await deadlines()).length === 0);
    await stop(one);
    expect(await deadlines()).toEqual([]);
  });

  it('stops a pass once the lease may have expired, before any signal aborts', async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const outcome: { aborted: boolean; refused: string }[] = [];
    const started = await start(
      harbour(async (key, { signal, assertLease }) => {
        if (key !== 'Ark') return null;
        assertLease();
        await held;
        try {
          assertLease();
        } catch (error) {
          outcome.push({ aborted: signal.aborted, refused: (error as Error).message });
        }
        return null;
      }),
    );
    await eventually(() => (started.sagas.wake('harbour', 'Ark'), started.sagas.stats().harbour?.working === 1));
    // A suspended machine stops the other clock.
    const now = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 10_000);
    release();
    await eventually(() => outcome.length > 0);
    now.mockRestore();
    expect(outcome[0]).toEqual({ aborted: false, refused: 'the lease has expired' });
  });

  it('publishes each completed step', () => {
    const told: unknown[] = [];
    const listen = (step: unknown) => told.push(step);
    sagaStep('harbour', 'Ark', 'unheard');
    subscribe(SAGA_STEP_CHANNEL, listen);
    sagaStep('harbour', 'Ark', 'moored');
    unsubscribe(SAGA_STEP_CHANNEL, listen);
    expect(told).toEqual([{ saga: 'harbour', key: 'Ark', step: 'moored' } satisfies SagaStep]);
  });
}
