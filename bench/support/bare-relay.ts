import { createHash, randomUUID } from 'node:crypto';

import pg from 'pg';

import { BareServer } from './bare.ts';

const TABLES = `
  create table keys (sha256 text primary key, account_id text not null);
  create table agents (agent_id text primary key, account_id text not null, address text not null);
  create table messages (id uuid primary key, conversation_id uuid not null, agent_id text not null, role text not null, text text not null,
    at timestamptz not null default now());
  create index messages_by_conversation on messages (conversation_id, at)`;

export interface BareRelay {
  server: BareServer;
  /** The ids of its agents, in the order of their addresses. */
  agentIds: string[];
}

/** Starts the bare relay with a database of its own beside the one of the URL, for agents at the addresses. */
export async function startBareRelay(url: string, database: string, addresses: readonly string[], isGrouped: boolean): Promise<BareRelay> {
  const own = url.replace(/\/[^/]*$/, `/${database}`);
  await withClient(url, (client) => client.query(`create database ${database}`));
  const [key, agentIds] = [`Bearer ${randomUUID()}`, addresses.map(() => randomUUID())];
  await withClient(own, async (client) => {
    await client.query(TABLES);
    await client.query('insert into keys values ($1, $2)', [createHash('sha256').update(key).digest('hex'), 'account']);
    await client.query('insert into agents select agent_id, $3, address from unnest($1::text[], $2::text[]) a (agent_id, address)', [
      agentIds,
      addresses,
      'account',
    ]);
  });
  const environment = { DATABASE_URL: own, BENCH_GROUP_COMMIT: isGrouped ? 'on' : 'off' };
  const server = await BareServer.run('bare-relay-server.ts', environment, { authorization: key });
  return { server, agentIds };
}

/** Connects to the database, and ends the connection after its use. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
