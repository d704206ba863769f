import { ProjectionProcess } from '../../../../test/support/sample-projection.ts';
import { sampleEvent } from '../../../../test/support/sample-event.ts';
import { appendTo } from '../../../../test/support/log.ts';
import { freshDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';

let test: TestDatabase;
let harbour: ProjectionProcess;

beforeEach(async () => {
  test = await freshDatabase();
  harbour = await ProjectionProcess.open(test.url);
});
afterEach(async () => {
  await harbour.close();
  await test.drop();
});

async function happens(type: string, data = {}): Promise<void> {
  const { position } = await appendTo(harbour.log.store, 'boat-Ark', sampleEvent(type, data));
  await harbour.projections.waitFor('boats', position);
}

const cargo = async () => (await harbour.log.database.query<{ cargo: string }>('select cargo from boats_v1')).map((row) => row.cargo);

it('a read model does not read again the rows that it wrote itself', async () => {
  await happens('BoatArrived');
  const asked = jest.spyOn(harbour.log.database.pool, 'query');
  for (let tons = 1; tons <= 3; tons += 1) await happens('BoatLoaded', { tons });
  const names = (asked.mock.calls as unknown as [{ name?: string }][]).map(([query]) => query.name);
  asked.mockRestore();
  expect(names).toContain('write boats_v1');
  expect(names).not.toContain('load boats_v1');
  expect(await cargo()).toEqual(['6']);
});

it('a row that was removed and created again has none of its old values', async () => {
  await happens('BoatArrived');
  await happens('BoatLoaded', { tons: 4 });
  await happens('BoatLeft');
  await happens('BoatLoaded', { tons: 1 });
  expect(await cargo()).toEqual([]);
  await happens('BoatArrived');
  await happens('BoatLoaded', { tons: 2 });
  expect(await cargo()).toEqual(['2']);
});
