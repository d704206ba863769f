import { quickIntervals } from '../../../../test/support/intervals.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import type { Database } from '../../../postgres/database/database.ts';
import { openDatabase } from '../../../postgres/database/open-database.ts';
import { Leases, type Lease } from '../../../postgres/leases/leases.ts';
import { Replica } from '../../../postgres/leases/replica.ts';
import { DesktopTurns } from './desktop-turns.service.ts';

const never = new AbortController().signal;
const nothing = { pointer: null, buttons: 0 };

describe('the turn to put input into a computer', () => {
  let test: TestDatabase;
  const opened: { database: Database; lease: Lease; turns: DesktopTurns }[] = [];

  /** Opens a replica that lives until its lease is released. */
  async function open() {
    const database = await openDatabase({ url: test.url, allowUnsafe: true });
    const replica = new Replica();
    const lease = await new Leases(database, quickIntervals).acquire(replica.lease, never);
    const turns = new DesktopTurns(database, replica);
    turns.onModuleInit();
    const one = { database, lease, replica, turns, acquire: (generation = 1) => turns.acquire('one', generation, never) };
    opened.push(one);
    return one;
  }

  beforeEach(async () => {
    test = await freshDatabase();
  });
  afterEach(async () => {
    for (const { turns } of opened) await turns.onApplicationShutdown();
    for (const { lease, database } of opened.splice(0)) {
      await lease.release();
      await database.close();
    }
    await test.drop();
  });

  it('belongs to one replica at a time, and the next one continues with the state of the input', async () => {
    const [first, second] = [await open(), await open()];
    const turn = await first.acquire();
    expect(turn.leftInput).toEqual(nothing);
    let isOver = false;
    const waiting = second.acquire().then((next) => {
      expect(isOver).toBe(true);
      return next;
    });
    // The first replica is asked for it, and has it to the end of its batch all the same.
    await Promise.race([waiting, new Promise((resolve) => setImmediate(resolve))]);
    isOver = true;
    await turn.end({ pointer: { x: 12, y: 34 }, buttons: 1 });
    expect((await waiting).leftInput).toEqual({ pointer: { x: 12, y: 34 }, buttons: 1 });
  });

  it('is never two replicas’, however many want it', async () => {
    const replicas = await Promise.all(Array.from({ length: 4 }, open));
    let [users, most] = [0, 0];
    const use = async (acquire: () => ReturnType<DesktopTurns['acquire']>) => {
      for (let n = 0; n < 5; n += 1) {
        const turn = await acquire();
        most = Math.max(most, (users += 1));
        await new Promise((resolve) => setImmediate(resolve));
        users -= 1;
        await turn.end(nothing);
      }
    };
    await Promise.all(replicas.map(({ acquire }) => use(acquire)));
    expect(most).toBe(1);
  });

  it('stays a replica’s from batch to batch, without a question to the database', async () => {
    const { acquire, database } = await open();
    await (await acquire()).end(nothing);
    const query = jest.spyOn(database, 'query');
    await (await acquire()).end(nothing);
    expect(query).not.toHaveBeenCalled();
  });

  it('is acquired from a replica that ended during a batch', async () => {
    const [ended, other] = [await open(), await open()];
    await ended.acquire();
    await ended.lease.release();
    await (await other.acquire()).end(nothing);
  });

  it('is lost by a replica that others may consider dead', async () => {
    const { acquire, replica } = await open();
    const turn = await acquire();
    replica.notifyLost();
    expect(turn.lost.reason).toMatchObject({ code: 'desktop_unreachable' });
  });

  it('remembers nothing of a computer that has stopped, or has another container', async () => {
    const [first, second] = [await open(), await open()];
    await (await first.acquire()).end({ pointer: { x: 12, y: 34 }, buttons: 1 });
    const turn = await second.acquire(2);
    expect(turn.leftInput).toEqual(nothing);
    await turn.end({ pointer: { x: 56, y: 78 }, buttons: 1 });
    await second.turns.deleteInput('one');
    expect((await first.acquire(2)).leftInput).toEqual(nothing);
  });
});
