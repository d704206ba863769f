import { randomUUID } from 'node:crypto';

import { Client } from 'pg';

export interface TestDatabase {
  url: string;
  drop(): Promise<void>;
}

/** Makes an empty database for one test file in the PostgreSQL that global-setup.ts started; the file drops it in afterAll. */
export async function freshDatabase(): Promise<TestDatabase> {
  const server = process.env.MOORING_TEST_POSTGRES;
  if (!server) throw new Error('MOORING_TEST_POSTGRES is unset: run tests with `npm test`');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(server);
  url.pathname = `/${name}`;
  await run(server, `CREATE DATABASE ${name} TEMPLATE template0`);
  return { url: url.href, drop: () => run(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

async function run(server: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
