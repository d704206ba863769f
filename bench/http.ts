import { setTimeout as wait } from 'node:timers/promises';

import pg from 'pg';

import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { StartedService } from '../test/support/started-service.ts';
import { until } from '../test/support/until.ts';
import { appendsPerSecond, portAppends } from './support/appending.ts';
import { BareServer } from './support/bare.ts';
import { emptyStore } from './support/empty-store.ts';
import { machineCpuMs } from './support/figures.ts';
import { rateOf, type Rate, type Target } from './support/rate.ts';

const READERS = 16;
const WRITERS = 32;
const AGENTS = 32;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8);
const SLICE_MS = 2_000;
const CHATS = 100;
const IDLE_MS = 10_000;

/** Measures GET and PATCH of agents with a key against the framework alone and the store alone, and the service's cost of one request. */
export async function run(): Promise<object> {
  const server = await OutsidePostgres.start();
  try {
    return await withServers(server.url);
  } finally {
    await server.stop();
  }
}

async function withServers(databaseUrl: string): Promise<object> {
  const service = await StartedService.start({ runtime: 'local', environment: { DATABASE_URL: databaseUrl, MOORING_LOG_LEVEL: 'info' } });
  const bare = await BareServer.start(databaseUrl, WRITERS);
  try {
    const agentIds = await makeAgents(service);
    const target = { url: service.firstRun.url, pid: service.pid, headers: { authorization: `Bearer ${service.firstRun.api_key}` } };
    const figures = {
      get: await gets(target, bare.target, agentIds),
      patch: await patches(target, agentIds, databaseUrl),
      patch_beside_bare: await patchesBesideBare(target, bare.target, agentIds),
      chat: await chats(service, target, databaseUrl),
    };
    console.table(figures);
    return figures;
  } finally {
    bare.stop();
    await service.dispose();
  }
}

/** Makes agents without containers, because only an agent's row is read and changed. */
async function makeAgents(service: StartedService): Promise<string[]> {
  const made = Array.from({ length: AGENTS }, async (_, index) => {
    const { body } = await service.call<{ agent_id: string }>('POST', '/api/v1/provision', {
      name: `agent ${index}`,
      image: 'docker',
      image_name: 'nginx:1',
      auto_deploy: false,
    });
    return body.agent_id;
  });
  return Promise.all(made);
}

async function gets(service: Target, bare: Target, agentIds: string[]): Promise<object> {
  const mine = () => rateOf(service, READERS, SLICE_MS, (caller) => ['GET', `/api/v1/agents/${agentIds[caller % AGENTS]}`]);
  const limit = () => rateOf(bare, READERS, SLICE_MS, (caller) => ['GET', `/agents/${agentIds[caller % AGENTS]}`]);
  return inTurn(mine, limit);
}

/** Compares with the appends of the store alone, whose writers need neither HTTP nor a read model. */
async function patches(service: Target, agentIds: string[], url: string): Promise<object> {
  const { store, close } = await emptyStore(url, 'appends');
  const append = portAppends(store, WRITERS);
  const limit = async () => {
    const before = machineCpuMs();
    const perSecond = await appendsPerSecond(append, WRITERS, SLICE_MS);
    return {
      count: NaN,
      perSecond,
      cpuMs: NaN,
      p50Ms: NaN,
      p95Ms: NaN,
      machineMs: (machineCpuMs() - before) / ((perSecond * SLICE_MS) / 1_000),
    };
  };
  const figures = await inTurn(() => patchRate(service, agentIds), limit);
  await close();
  return figures;
}

/** Compares with a handler of the same framework that does nothing but one append. */
async function patchesBesideBare(service: Target, bare: Target, agentIds: string[]): Promise<object> {
  const limit = () => rateOf(bare, WRITERS, SLICE_MS, (caller) => ['PATCH', `/agents/${caller}`, { description: 'a change' }]);
  return inTurn(() => patchRate(service, agentIds), limit);
}

let changes = 0;

function patchRate(service: Target, agentIds: string[]): Promise<Rate> {
  return rateOf(service, WRITERS, SLICE_MS, (caller) => [
    'PATCH',
    `/api/v1/agents/${agentIds[caller]}`,
    { description: `change ${(changes += 1)}` },
  ]);
}

/**
 * Measures both in alternating slices, which are affected equally by other load on the machine. The ratio is the median of the slices'
 * ratios.
 */
async function inTurn(mine: () => Promise<Rate>, limit: () => Promise<Rate>): Promise<object> {
  await mine();
  await limit();
  const pairs: { mine: Rate; limit: Rate }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const first = round % 2 === 0 ? await mine() : null;
    const other = await limit();
    pairs.push({ mine: first ?? (await mine()), limit: other });
  }
  return {
    per_second: Math.round(median(pairs.map((pair) => pair.mine.perSecond))),
    limit_per_second: Math.round(median(pairs.map((pair) => pair.limit.perSecond))),
    ratio: round2(median(pairs.map((pair) => pair.mine.perSecond / pair.limit.perSecond))),
    cpu_ms: round2(median(pairs.map((pair) => pair.mine.cpuMs))),
    limit_cpu_ms: round2(median(pairs.map((pair) => pair.limit.cpuMs))),
    machine_ms: round2(median(pairs.map((pair) => pair.mine.machineMs))),
    limit_machine_ms: round2(median(pairs.map((pair) => pair.limit.machineMs))),
  };
}

/** Measures one caller that chats with one agent, in one conversation. */
async function chats(service: StartedService, target: Target, url: string): Promise<object> {
  const { body } = await service.call<{ agent_id: string }>('POST', '/api/agents', { name: 'chats', templateId: 'hello' });
  const path = `/api/agents/${body.agent_id}`;
  await until('the agent is active', async () => ((await service.call('GET', path)).body.status === 'active' ? true : undefined));
  const first = await service.call<{ conversation_id: string }>('POST', `${path}/chat`, { message: 'hello' });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const committed = async () => {
    // Sessions report their statistics at most once a second.
    await wait(1_500);
    const { rows } = await client.query<{ n: string }>(`select xact_commit as n from pg_stat_database where datname = current_database()`);
    return Number(rows[0]?.n);
  };
  const idleBefore = await committed();
  const idleBegan = performance.now();
  await wait(IDLE_MS);
  const idlePerMs = ((await committed()) - idleBefore) / (performance.now() - idleBegan);
  const before = await committed();
  const began = performance.now();
  let count = 0;
  const { perSecond, cpuMs } = await rateOf(target, 1, CHATS * 50, () => {
    count += 1;
    return ['POST', `${path}/chat`, { message: 'hello', conversation_id: first.body.conversation_id }];
  });
  const transactions = (await committed()) - before - idlePerMs * (performance.now() - began);
  await client.end();
  return { per_second: Math.round(perSecond), cpu_ms: round2(cpuMs), transactions: round2(transactions / count) };
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? NaN;
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}
