import { Client } from 'pg';

import { emptyDatabase, freshDatabase } from './postgres.ts';

describe('freshDatabase', () => {
  it('makes a migrated database without rows each time and drops it even while a client is connected', async () => {
    const [one, two] = await Promise.all([freshDatabase(), freshDatabase()]);
    expect(one.url).not.toBe(two.url);
    const client = new Client({ connectionString: one.url });
    const cutOff = new Promise((resolve) => client.on('error', resolve));
    await client.connect();
    await client.query('CREATE TABLE boats (berth int)');
    expect((await client.query('SELECT * FROM es_event')).rows).toEqual([]);

    await one.drop();
    await cutOff;
    await two.drop();
    const late = new Client({ connectionString: one.url });
    await expect(late.connect()).rejects.toThrow('does not exist');
  });
});

describe('emptyDatabase', () => {
  it('makes a database without tables', async () => {
    const database = await emptyDatabase();
    const client = new Client({ connectionString: database.url });
    await client.connect();
    expect((await client.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).rows).toEqual([]);
    await client.end();
    await database.drop();
  });
});
