import { randomUUID } from 'node:crypto';

import { until } from '../../../test/support/until.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { operate } from '../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { Leases } from '../../postgres/leases/leases.ts';
import { Replica } from '../../postgres/leases/replica.ts';
import { Activity, HOLD_TTL_SECONDS } from './activity.service.ts';

let server: TestDatabase;
let database: Database;

beforeAll(async () => {
  server = await freshDatabase();
  database = await openDatabase({ url: server.url, allowUnsafe: true });
});

afterAll(async () => {
  await database.close();
  await server.drop();
});

const rows = (agentId: string) => database.query('select owner from agent_holds where agent_id = $1', [agentId]);

const newActivity = () => new Activity(database, new Replica());

describe('an agent with work in flight', () => {
  it('is held while the work runs, and counts as used until it ended', async () => {
    const activity = newActivity();
    expect(await activity.isHeld('a1')).toBe(false);
    expect(await activity.lastActiveAt('a1')).toBeNull();

    const hold = await activity.hold('a1');
    expect(await activity.isHeld('a1')).toBe(true);
    const begun = await activity.lastActiveAt('a1');
    hold.release();
    expect(await activity.isHeld('a1')).toBe(false);
    expect((await activity.lastActiveAt('a1'))?.getTime()).toBeGreaterThanOrEqual(begun?.getTime() ?? Infinity);
    await activity.beforeApplicationShutdown();
  });

  it('is held for every replica, until the last of them is done', async () => {
    const [one, two, looking] = [newActivity(), newActivity(), newActivity()];
    const holds = await Promise.all([one.hold('a2'), two.hold('a2')]);
    holds[0].release();
    expect(await looking.isHeld('a2')).toBe(true);
    holds[1].release();
    await until('nobody holds it', async () => ((await looking.isHeld('a2')) ? undefined : true));
    await Promise.all([one, two].map((activity) => activity.beforeApplicationShutdown()));
  });

  it('takes one row for 100 callers of one process, and is released by the last', async () => {
    const activity = newActivity();
    const holds = await Promise.all(Array.from({ length: 100 }, () => activity.hold('a3')));
    expect(await rows('a3')).toHaveLength(1);
    for (const hold of holds.slice(1)) hold.release();
    expect(await activity.isHeld('a3')).toBe(true);
    holds[0]?.release();
    holds[0]?.release();
    expect(await activity.isHeld('a3')).toBe(false);
    await activity.beforeApplicationShutdown();
  });

  it('is held during each of many holds that overlap', async () => {
    const activity = newActivity();
    const unheld = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        let missing = 0;
        for (let round = 0; round < 5; round += 1) {
          const hold = await activity.hold('a4');
          if (index % 3 === 0 && !(await activity.isHeld('a4'))) missing += 1;
          hold.release();
        }
        return missing;
      }),
    );
    expect(unheld.reduce((sum, missing) => sum + missing, 0)).toBe(0);
    expect(await activity.isHeld('a4')).toBe(false);
    expect(await rows('a4')).toEqual([]);
    await activity.beforeApplicationShutdown();
  });

  it('is free as soon as the process that held it is dead', async () => {
    const replica = new Replica();
    const lease = await new Leases(database).acquire(replica.lease, new AbortController().signal);
    const activity = new Activity(database, replica);
    await activity.hold('c1');
    const looking = newActivity();
    expect(await looking.inFlight('c1')).toEqual({ held: true, abandonedBy: null });
    // The end of its process closes the connection in the same way.
    await operate(
      server.url,
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name = (select owner from consumer_leases where name = $1)',
      [lease.name],
    );
    await until('nobody counts its hold', async () => ((await looking.isHeld('c1')) ? undefined : true));
    expect(await rows('c1')).toHaveLength(1);
    expect(await looking.inFlight('c1')).toEqual({ held: false, abandonedBy: replica.id });
    await activity.beforeApplicationShutdown();
  });

  it('was abandoned by the replica that ended last, for an hour', async () => {
    const looking = newActivity();
    const abandonedBy = async () => (await looking.inFlight('c3')).abandonedBy;
    const [longAgo, first, last, olderProgram] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    const die = async (owner: string, hold: string) => {
      await database.query(
        `insert into consumer_leases (name, owner, epoch, expires_at) values ('replica:' || $1::uuid, 'no session', 1, '-infinity')`,
        [owner],
      );
      await database.query(`insert into agent_holds values ('c3', $1, clock_timestamp() + $2::interval)`, [owner, hold]);
    };
    await die(longAgo, '-61 minutes');
    expect(await abandonedBy()).toBeNull();
    await die(first, '-5 minutes');
    await die(last, '5 seconds');
    expect(await abandonedBy()).toBe(last);
    // Nobody knows of the owner whether it lives.
    await database.query(`insert into agent_holds values ('c3', $1, clock_timestamp() + interval '9 seconds')`, [olderProgram]);
    expect(await looking.inFlight('c3')).toEqual({ held: true, abandonedBy: last });
  });

  it('is acquired again for a caller after other replicas may have considered the process dead', async () => {
    const replica = new Replica();
    const activity = new Activity(database, replica);
    const before = await activity.hold('c2');
    replica.notifyLost();
    expect(activity.rowOf('c2')).toBeNull();
    const after = await activity.hold('c2');
    expect(after.row).not.toBe(before.row);
    expect(await activity.isHeld('c2')).toBe(true);
    await activity.beforeApplicationShutdown();
  });

  it('is released some time after the process that held it died', async () => {
    const died = newActivity();
    await died.hold('a5');
    const looking = newActivity();
    expect(await looking.isHeld('a5')).toBe(true);
    await database.query(`update agent_holds set expires_at = expires_at - make_interval(secs => $1) where agent_id = 'a5'`, [
      HOLD_TTL_SECONDS,
    ]);
    expect(await looking.isHeld('a5')).toBe(false);
    await died.beforeApplicationShutdown();
  });

  it('is acquired again for a caller after the process was suspended, because its hold may have expired', async () => {
    const activity = newActivity();
    await activity.hold('a8');
    await database.query(`update agent_holds set expires_at = now() - interval '1 second' where agent_id = 'a8'`);
    const later = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + HOLD_TTL_SECONDS * 1000);
    await activity.hold('a8');
    later.mockRestore();
    expect(await activity.isHeld('a8')).toBe(true);
    await activity.beforeApplicationShutdown();
  });

  it('is released at once when the process that held it stops gracefully', async () => {
    const activity = newActivity();
    await activity.hold('a6');
    await activity.beforeApplicationShutdown();
    expect(await activity.isHeld('a6')).toBe(false);
  });

  it('leaves nothing behind when it is forgotten', async () => {
    const activity = newActivity();
    (await activity.hold('a7')).release();
    await activity.delete('a7');
    expect(await activity.lastActiveAt('a7')).toBeNull();
    await activity.beforeApplicationShutdown();
    expect(await activity.lastActiveAt('a7')).toBeNull();
  });

  it('costs one row and one statement when it is used repeatedly', async () => {
    const activity = newActivity();
    const first = await activity.hold('a9');
    first.release();
    const query = jest.spyOn(database, 'query');
    for (let again = 0; again < 20; again += 1) {
      const hold = await activity.hold('a9');
      expect(hold.row).toBe(first.row);
      hold.release();
    }
    expect(query).not.toHaveBeenCalled();
    query.mockRestore();
    expect(await rows('a9')).toHaveLength(1);
    await activity.beforeApplicationShutdown();
  });

  it('stays held for eight seconds without a reader, so that its next use costs no statement, and counts as unused meanwhile', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance'] });
    const activity = newActivity();
    const computer = 'computer-b5';
    for (const id of ['b5', computer]) (await activity.hold(id)).release();
    const query = jest.spyOn(database, 'query');
    const written = () => Promise.all(query.mock.results.map(({ value }) => value as Promise<unknown>));
    const usedAt = Date.now();
    for (let ms = 0; ms < 7_500; ms += 500) {
      await jest.advanceTimersByTimeAsync(500);
      await written();
    }
    const before = query.mock.calls.length;
    const row = activity.rowOf('b5');
    expect(row).not.toBeNull();
    const hold = await activity.hold('b5');
    expect(hold.row).toBe(row);
    expect(query.mock.calls).toHaveLength(before);
    const [counts] = await database.query<{ until: Date; used: Date }>(
      `select h.expires_at as until, a.last_active_at as used from agent_holds h join agent_activity a using (agent_id) where agent_id = 'b5'`,
    );
    jest.useRealTimers();
    // The clock of the database has not moved, so a renewal in the name of its last use lies some seconds before it.
    expect(counts?.used.getTime()).toBeLessThan(usedAt + 1_000);
    expect(activity.rowOf(computer)).toBeNull();
    hold.release();
    query.mockRestore();
    await activity.beforeApplicationShutdown();
  });

  it('is released eight seconds after its last use at the latest, for every replica', async () => {
    const [activity, looking] = [newActivity(), newActivity()];
    for (const id of ['b1', 'b2']) (await activity.hold(id)).release();
    expect(await looking.isHeld('b1')).toBe(true);
    const later = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 8_000);
    await until('the rows are gone', async () => ((await rows('b1')).length + (await rows('b2')).length === 0 ? true : undefined));
    later.mockRestore();
    await activity.beforeApplicationShutdown();
  });

  it('counts as used until the last work ended, however old its row is', async () => {
    const activity = newActivity();
    const hold = await activity.hold('b3');
    await database.query(`update agent_activity set last_active_at = now() - interval '1 hour' where agent_id = 'b3'`);
    hold.release();
    const age = Date.now() - ((await activity.lastActiveAt('b3'))?.getTime() ?? 0);
    expect(age).toBeLessThan(60_000);
    await activity.beforeApplicationShutdown();
  });

  it('gets a new row from a caller that arrives while the old one is deleted', async () => {
    const activity = newActivity();
    const before = await activity.hold('b4');
    before.release();
    const [, after] = await Promise.all([activity.isHeld('b4'), activity.hold('b4')]);
    expect(after.row).not.toBe(before.row);
    expect(await activity.isHeld('b4')).toBe(true);
    after.release();
    await activity.beforeApplicationShutdown();
  });
});

describe('an agent that is kept awake', () => {
  const idleFor = async (activity: Activity, agentId: string) => Date.now() - ((await activity.idleFrom(agentId))?.getTime() ?? 0);
  const usedAnHourAgo = async (activity: Activity, agentId: string) => {
    (await activity.hold(agentId)).release();
    expect(await activity.isHeld(agentId)).toBe(false);
    await database.query(`update agent_activity set last_active_at = now() - interval '1 hour' where agent_id = $1`, [agentId]);
  };

  it('is idle from that time on, without any process, and from now on before it; what callers see of its last use stays', async () => {
    const activity = newActivity();
    await usedAnHourAgo(activity, 'd1');
    expect(await idleFor(activity, 'd1')).toBeGreaterThan(3_500_000);
    await activity.keepAwake('d1', new Date(Date.now() + 600_000));
    expect(await idleFor(newActivity(), 'd1')).toBeLessThan(60_000);
    expect(Date.now() - ((await activity.lastActiveAt('d1'))?.getTime() ?? 0)).toBeGreaterThan(3_500_000);
    await database.query(`update agent_activity set kept_until = now() - interval '10 minutes' where agent_id = 'd1'`);
    expect(Math.round((await idleFor(activity, 'd1')) / 60_000)).toBe(10);
    await activity.beforeApplicationShutdown();
  });

  it('is kept awake for the longest requested time, until that request is withdrawn, which counts as a use', async () => {
    const activity = newActivity();
    await usedAnHourAgo(activity, 'd2');
    const later = new Date(Date.now() + 600_000);
    await activity.keepAwake('d2', later);
    await activity.keepAwake('d2', new Date(Date.now() + 60_000));
    expect(await database.query(`select kept_until from agent_activity where agent_id = 'd2'`)).toEqual([{ kept_until: later }]);
    await activity.keepAwakeOnly('d2', null);
    expect(await database.query(`select kept_until from agent_activity where agent_id = 'd2'`)).toEqual([{ kept_until: null }]);
    expect(Date.now() - ((await activity.lastActiveAt('d2'))?.getTime() ?? 0)).toBeLessThan(60_000);
    await activity.keepAwakeOnly('nobody', later);
    expect(await activity.idleFrom('nobody')).toBeNull();
    await activity.beforeApplicationShutdown();
  });
});
