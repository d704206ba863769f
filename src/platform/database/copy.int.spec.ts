import { Client } from 'pg';

import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { copyIn, copyOut, type Slab } from './copy.ts';

let database: TestDatabase;
let client: Client;

beforeAll(async () => (database = await freshDatabase()));
beforeEach(async () => {
  client = new Client({ connectionString: database.url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('create temp table kept (id integer, text text)');
});
afterEach(() => client.end());
afterAll(() => database?.drop());

async function* pieces(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

async function all(source: AsyncIterable<Slab>): Promise<string> {
  const found: Buffer[] = [];
  for await (const { bytes } of source) found.push(bytes);
  return Buffer.concat(found).toString();
}

describe('COPY', () => {
  it('copies in what it copied out, wherever the chunks end', async () => {
    await copyIn(client, 'copy kept from stdin', pieces('1\ta', ' line\\nof two\n2\t', '\\N\n'));
    expect((await client.query('select * from kept order by id')).rows).toEqual([
      { id: 1, text: 'a line\nof two' },
      { id: 2, text: null },
    ]);
    expect(await all(copyOut(client, 'copy kept to stdout'))).toBe('1\ta line\\nof two\n2\t\\N\n');
  });

  it('makes the server wait for a slow reader', async () => {
    const given = copyOut(client, `copy (select n, repeat('x', 1000) from generate_series(1, 40000) n) to stdout`);
    const first = await given.next();
    // The whole result would take 40 MB.
    let total = 0;
    let count = 0;
    for (let next: IteratorResult<Slab> = first; next.done !== true; next = await given.next()) {
      const { bytes, rows } = next.value;
      expect(bytes.length).toBeLessThan(4_000_000);
      expect(rows.map((start) => (start === 0 ? 0x0a : bytes[start - 1]))).toEqual(rows.map(() => 0x0a));
      total += bytes.length;
      count += rows.length - 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(total).toBeGreaterThan(40_000_000);
    expect(count).toBe(40_000);
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('reports an error of the server, and the connection stays usable', async () => {
    await expect(copyIn(client, 'copy kept from stdin', pieces('one\ttwo\n'))).rejects.toThrow(/invalid input syntax/);
    await expect(all(copyOut(client, 'copy nowhere to stdout'))).rejects.toThrow(/does not exist/);
    expect((await client.query('select count(*)::int as rows from kept')).rows).toEqual([{ rows: 0 }]);
  });

  it('stores nothing from a source that fails', async () => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('1\ta\n');
      throw new Error('the disk is gone');
    }
    await expect(copyIn(client, 'copy kept from stdin', broken())).rejects.toThrow('the disk is gone');
    expect((await client.query('select count(*)::int as rows from kept')).rows).toEqual([{ rows: 0 }]);
  });

  it('fails if its connection breaks', async () => {
    const given = copyOut(client, `copy (select n, repeat('x', 1000) from generate_series(1, 40000) n) to stdout`);
    await given.next();
    const { processID } = client as unknown as { processID: number };
    const other = new Client({ connectionString: database.url });
    await other.connect();
    await other.query('select pg_terminate_backend($1)', [processID]);
    await other.end();
    await expect(all(given)).rejects.toThrow(/terminat/);
  });
});
