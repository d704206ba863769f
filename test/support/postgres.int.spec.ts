import { Client } from 'pg';

import { freshDatabase } from './postgres.ts';

describe('freshDatabase', () => {
  it('makes an empty database each time and drops it even while a client is connected', async () => {
    const [one, two] = await Promise.all([freshDatabase(), freshDatabase()]);
    expect(one.url).not.toBe(two.url);
    const client = new Client({ connectionString: one.url });
    const cutOff = new Promise((resolve) => client.on('error', resolve));
    await client.connect();
    await client.query('CREATE TABLE boats (berth int)');

    await one.drop();
    await cutOff;
    await two.drop();
    const late = new Client({ connectionString: one.url });
    await expect(late.connect()).rejects.toThrow('does not exist');
  });
});
