import { randomUUID } from 'node:crypto';

import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { until } from '../../../test/support/until.ts';
import { Clock } from '../../kernel/clock.ts';
import type { Database } from '../../postgres/database/database.ts';
import { openDatabase } from '../../postgres/database/open-database.ts';
import { Leases } from '../../postgres/leases/leases.ts';
import { Replica } from '../../postgres/leases/replica.ts';
import type { ContainerRuntime, RuntimeEvent } from '../../runtime/runtime.ts';
import { EngineUptime } from './engine-uptime.service.ts';

let server: TestDatabase;
let database: Database;

beforeAll(async () => {
  server = await freshDatabase();
  database = await openDatabase({ url: server.url, allowUnsafe: true });
});
afterAll(async () => {
  await database?.close();
  await server?.drop();
});
afterEach(() => database.query('delete from consumer_leases'));

const at = (clock: string) => new Date(`2026-11-20T${clock}:00.000Z`);

/** Adds the lease of a replica that ended after it had renewed it at that time. */
async function ended(lastRenewal: Date): Promise<void> {
  await database.query(
    `insert into consumer_leases (name, owner, epoch, expires_at) values ($1, 'no session', 1, $2::timestamptz + interval '10 seconds')`,
    [`replica:${randomUUID()}`, lastRenewal],
  );
}

/** Returns the uptime as seen by a process that received these events at these times. */
async function uptimeAfter(...events: [Date, RuntimeEvent][]): Promise<EngineUptime> {
  const clock = new Clock();
  const runtime = {
    async *events() {
      for (const [time, event] of events) {
        clock.now = () => time;
        yield event;
      }
    },
  } as unknown as ContainerRuntime;
  const uptime = new EngineUptime(runtime, database, clock);
  const passedOn: RuntimeEvent[] = [];
  for await (const event of uptime.events(new AbortController().signal)) passedOn.push(event);
  expect(passedOn).toEqual(events.map(([, event]) => event));
  return uptime;
}

describe('the engine was up', () => {
  it('until the last replica that has ended was alive, if this process began later', async () => {
    const uptime = await uptimeAfter([at('12:10'), { kind: 'lost' }]);
    expect(await uptime.lastUp(at('12:05'))).toEqual(at('12:05'));
    for (const time of ['09:00', '11:00', '10:00', '12:07']) await ended(at(time));
    expect(await uptime.lastUp(at('12:05'))).toEqual(at('11:00'));
    expect(await (await uptimeAfter()).lastUp(at('12:05'))).toEqual(at('11:00'));
  });

  it('for as long as this process followed it, whichever replicas ended, except for the time in which it lost the engine', async () => {
    await ended(at('10:00'));
    const followed = [at('10:30'), { kind: 'changed', agentId: 'a' }] as [Date, RuntimeEvent];
    expect(await (await uptimeAfter(followed)).lastUp(at('12:05'))).toEqual(at('12:05'));
    const back = await uptimeAfter(followed, [at('12:10'), { kind: 'lost', since: at('11:30') }]);
    expect(await back.lastUp(at('12:05'))).toEqual(at('11:30'));
    expect(await back.lastUp(at('11:15'))).toEqual(at('11:15'));
    expect(await back.lastUp(at('12:20'))).toEqual(at('12:20'));
  });

  it('until a replica ended that released its lease', async () => {
    const replica = new Replica();
    const before = Date.now();
    const lease = await new Leases(database).acquire(replica.lease, new AbortController().signal);
    await lease.release();
    const now = new Date();
    const uptime = await uptimeAfter();
    // The database may list the session for a moment after it has ended.
    const last = await until('the replica is known to have ended', async () => {
      const time = await uptime.lastUp(now);
      return time < now ? time.getTime() : undefined;
    });
    expect(last).toBeGreaterThan(before - 11_000);
  });
});
