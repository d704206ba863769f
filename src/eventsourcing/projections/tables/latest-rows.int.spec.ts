import { harbourEvent } from '../../../../test/support/harbour-event.ts';
import { appendTo, everything, openAggregates, openLog, type OpenedLog } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import type { LogFollower } from '../../log/log-follower.ts';
import { idOf } from '../../event-store/event-store.ts';
import { LatestRows } from './latest-rows.ts';
import { Leases } from '../../../postgres/leases/leases.ts';
import type { Projection, ProjectionTable } from '../projection.ts';
import { Projections } from '../projections.ts';

const boatsTable = {
  key: 'name',
  columns: { name: 'text not null', cargo: 'integer not null', revision: 'integer not null' },
  indexes: {},
} as const satisfies ProjectionTable;

const boats: Projection<typeof boatsTable> = {
  name: 'boats',
  version: 1,
  filter: { ...everything, categories: ['boat'] },
  table: boatsTable,
  keys: (event) => [idOf(event.stream)],
  project({ stream, type, data, revision }, rows) {
    const name = idOf(stream);
    if (type === 'BoatLeft') rows.delete(name);
    else rows.set(name, { name, cargo: (rows.get(name)?.cargo ?? 0) + ((data.tons as number | undefined) ?? 0), revision });
  },
};

describe('a row as its stream says it is', () => {
  let test: TestDatabase;
  let log: OpenedLog;
  const followers: LogFollower[] = [];

  beforeEach(async () => {
    test = await freshDatabase();
    log = await openLog(test.url);
  });
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.beforeApplicationShutdown();
    await log.close();
    await test.drop();
  });

  /** Opens what a process has that has just started. */
  async function opened() {
    const { states, follower } = openAggregates(log.database, log.store, log.catalogue);
    await follower.onApplicationBootstrap();
    followers.push(follower);
    return { rows: new LatestRows(log.database, states), follower };
  }
  const load = (tons: number) => appendTo(log.store, 'boat-Ark', harbourEvent('BoatLoaded', { tons }));

  it('is answered from memory once it is there, and follows what others write', async () => {
    await load(1);
    const { rows, follower } = await opened();
    expect(await rows.find(boats, 'boat-Ark')).toMatchObject({ row: { cargo: 1, revision: 0 } });
    const { position } = await load(10);
    const heard = (await follower.catchUpToHead()) ?? '';
    const asked = jest.spyOn(log.database.pool, 'connect');
    expect(await rows.find(boats, 'boat-Ark', heard)).toEqual({ row: { name: 'Ark', cargo: 11, revision: 1 }, position });
    expect(asked).not.toHaveBeenCalled();
    asked.mockRestore();
    await appendTo(log.store, 'boat-Ark', harbourEvent('BoatLeft'));
    expect((await rows.find(boats, 'boat-Ark')).row).toBeUndefined();
    expect((await rows.find(boats, 'boat-Beagle')).row).toBeUndefined();
  });

  it('is folded on from the row of the read model if its stream is long, however far that row is behind', async () => {
    const events = Array.from({ length: 400 }, () => harbourEvent('BoatLoaded', { tons: 1 }));
    const { position } = await appendTo(log.store, 'boat-Ark', ...events);
    const projections = new Projections(log.database, log.store, new Leases(log.database), log.aggregates, log.config);
    projections.register(boats);
    await projections.start();
    await projections.waitFor('boats', position);
    await projections.beforeApplicationShutdown();
    await load(5);
    const inBulk = jest.spyOn(log.store, 'readStreamInBulk');
    expect((await (await opened()).rows.find(boats, 'boat-Ark')).row).toEqual({ name: 'Ark', cargo: 405, revision: 400 });
    expect(inBulk).not.toHaveBeenCalled();
  });

  it('is folded from the first event if there is no read model yet', async () => {
    await appendTo(log.store, 'boat-Ark', ...Array.from({ length: 400 }, () => harbourEvent('BoatLoaded', { tons: 1 })));
    expect((await (await opened()).rows.find(boats, 'boat-Ark')).row).toEqual({ name: 'Ark', cargo: 400, revision: 399 });
  });
});
