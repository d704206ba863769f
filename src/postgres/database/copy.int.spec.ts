import { Client } from 'pg';

import { freshDatabase, type TestDatabase } from '../../../test/support/postgres.ts';
import { copyIn, copyOut, rowsOf, type RowBatch } from './copy.ts';

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

async function all(source: AsyncIterable<RowBatch>): Promise<string> {
  const found: Buffer[] = [];
  for await (const slab of source) found.push(rowsOf(slab));
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
    for (let next: IteratorResult<RowBatch> = first; next.done !== true; next = await given.next()) {
      const { bytes, starts, ends } = next.value;
      expect(bytes.length).toBeLessThan(4_000_000);
      expect(ends.map((end, n) => [bytes[end - 1], bytes.indexOf(0x0a, starts[n])])).toEqual(ends.map((end) => [0x0a, end - 1]));
      count += starts.length;
      total += rowsOf(next.value).length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(total).toBeGreaterThan(40_000_000);
    expect(count).toBe(40_000);
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('finds the rows wherever the bytes of the connection are cut, and leaves the connection usable', async () => {
    const { stream } = (client as unknown as { connection: { stream: { emit(name: string, ...args: unknown[]): boolean } } }).connection;
    const emit = stream.emit.bind(stream);
    let cut = 1;
    stream.emit = (name, ...args) => {
      const [bytes] = args;
      if (name !== 'data') return emit(name, ...args);
      for (let at = 0; at < (bytes as Buffer).length; at += cut) emit(name, (bytes as Buffer).subarray(at, at + cut));
      return true;
    };
    const wanted = Array.from({ length: 20 }, (_, n) => `${n + 1}\t${'x'.repeat(n)}\n`).join('');
    for (cut of [1, 2, 3, 4, 5, 6, 11]) {
      expect(await all(copyOut(client, `copy (select n, repeat('x', n - 1) from generate_series(1, 20) n) to stdout`))).toBe(wanted);
      await expect(all(copyOut(client, 'copy nowhere to stdout'))).rejects.toThrow(/does not exist/);
      expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    }
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
