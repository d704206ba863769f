import { v7 as uuidv7 } from 'uuid';
import { agentDecider } from '../src/features/agents/aggregate/agents.decider.ts';
import { eventDefinitions } from '../src/app.module.ts';
import { readConfig } from '../src/kernel/config/read-config.ts';
import type { Database } from '../src/postgres/database/database.ts';
import { openDatabase } from '../src/postgres/database/open-database.ts';
import { OutsidePostgres } from '../test/support/outside-postgres.ts';
import { environmentDecider } from '../src/features/environment/environment.decider.ts';
import { EventCatalogue } from '../src/eventsourcing/event-store/event-catalogue.ts';
import type { JsonObject } from '../src/eventsourcing/event-store/event-definition.ts';
import type { NewEvent } from '../src/eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../src/eventsourcing/log/log-follower.ts';
import { PostgresEventStore } from '../src/eventsourcing/event-store/postgres/postgres-event-store.ts';
import { Snapshots } from '../src/eventsourcing/aggregates/snapshots.ts';
import type { AnyDecider } from '../src/eventsourcing/aggregates/stream-state.ts';
import { StreamStates } from '../src/eventsourcing/aggregates/stream-states.ts';

const EVENTS = 100_000;
const AT_ONCE = 500;
const COLD_LOADS = 20;
const WHOLE_LOADS = 3;
const stream = 'agent-01890a5d-ac96-774b-bcce-b302099a8002';
const deciders: Record<string, AnyDecider> = { agent: agentDecider, environment: environmentDecider };

/**
 * Measures the time (in ms) in which the state of a stream of 100,000 events loads in a process that does not have it in memory, against one
 * raw read of its rows.
 */
export async function run(): Promise<object> {
  const server = await OutsidePostgres.start();
  try {
    const database = await openDatabase({ url: server.url });
    const store = new PostgresEventStore(database, new EventCatalogue(eventDefinitions));
    await fill(store);
    const figures = await measure(database, store);
    await store.close();
    await database.close();
    console.table(figures);
    return { unit: 'milliseconds, medians', events: EVENTS, figures };
  } finally {
    await server.stop();
  }
}

async function measure(database: Database, store: PostgresEventStore): Promise<object[]> {
  const snapshots = new Snapshots(database);
  const config = readConfig({});
  const coldLoad = (decider: AnyDecider) => new StreamStates(store, new LogFollower(store), snapshots, config).newest(stream, decider);
  const figures = [];
  for (const [name, decider] of Object.entries(deciders)) {
    const raw = await median(WHOLE_LOADS, () =>
      database.query('select type, data from es_event where stream = $1 order by version', [stream]),
    );
    const whole = await median(WHOLE_LOADS, async () => {
      await database.query('delete from aggregate_snapshots');
      await coldLoad(decider);
    });
    await snapshots.settle();
    const cold = await median(COLD_LOADS, () => coldLoad(decider));
    figures.push({ decider: name, 'raw read of the rows': raw, 'without a snapshot': whole, 'with a snapshot': cold });
  }
  return figures;
}

async function median(times: number, work: () => Promise<unknown>): Promise<number> {
  const taken: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const began = performance.now();
    await work();
    taken.push(performance.now() - began);
  }
  taken.sort((a, b) => a - b);
  return Math.round((taken[Math.floor(times / 2)] as number) * 10) / 10;
}

/** Appends an agent whose settings and variables are changed repeatedly. */
async function fill(store: PostgresEventStore): Promise<void> {
  const actor = { kind: 'api_key' as const, id: 'key-1', name: 'ci' };
  const metadata = { actor, account_id: 'account-1', request_id: uuidv7(), causation_id: null, ip: '192.0.2.7' };
  for (let from = 0; from < EVENTS; from += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, index): NewEvent => ({
      id: uuidv7(),
      ...eventAt(from + index),
      schemaVersion: 1,
      metadata,
    }));
    await store.append(stream, from === 0 ? 'no_stream' : from - 1, batch);
  }
}

function eventAt(index: number): { type: string; data: JsonObject } {
  if (index === 0) return { type: 'AgentProvisioned', data: provisioned };
  if (index % 2 === 0) return { type: 'AgentConfigured', data: { changes: { description: `Change ${index}` } } };
  const value = `value ${index}`;
  const set_at = new Date(1_700_000_000_000 + index).toISOString();
  return { type: 'VariableSet', data: { key: `KEY_${index % 100}`, is_secret: false, value, sealed: null, mask: null, set_at } };
}

const provisioned = {
  name: 'helper',
  description: 'Answers mail',
  image: 'docker',
  image_name: 'nginx:1',
  repo_url: null,
  branch: 'main',
  template_id: null,
  serverless: true,
  idle_ttl_seconds: 300,
  account_id: 'account-1',
  external_id: null,
};
