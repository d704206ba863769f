import { randomUUID } from 'node:crypto';

import { Client } from 'pg';

import { addressOf, connectOwner, migrate } from '../../src/postgres/database/migrate.ts';

export interface TestDatabase {
  url: string;
  drop(): Promise<void>;
}

const template = 'mooring_template';

/** Makes the migrated database that `freshDatabase` copies, in the PostgreSQL that global-setup.mjs started. */
export async function makeTemplateDatabase(): Promise<void> {
  await run(server(), `CREATE DATABASE ${template} TEMPLATE template0`);
  const address = addressOf(urlOf(template));
  const owner = await connectOwner(address);
  await migrate(owner, address);
  await owner.end();
}

/** Makes a migrated database for one test file, which drops it in afterAll. */
export function freshDatabase(): Promise<TestDatabase> {
  return copyOf(template);
}

/** Makes a database without any table, for tests of what happens in one: migrations, restores. The test file drops it in afterAll. */
export function emptyDatabase(): Promise<TestDatabase> {
  return copyOf('template0');
}

async function copyOf(source: string): Promise<TestDatabase> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  // The usual strategy also writes every page to the write-ahead log, which costs the server twice the time.
  await run(server(), `CREATE DATABASE ${name} TEMPLATE ${source} STRATEGY FILE_COPY`);
  return { url: urlOf(name), drop: () => run(server(), `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

function urlOf(database: string): string {
  const url = new URL(server());
  url.pathname = `/${database}`;
  return url.href;
}

function server(): string {
  const url = process.env.MOORING_TEST_POSTGRES;
  if (!url) throw new Error('MOORING_TEST_POSTGRES is unset: run tests with `npm test`');
  return url;
}

async function run(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
