import { createHash, randomBytes } from 'node:crypto';
import { FakeEventStoreDb } from './fake-eventstoredb.ts';

export interface EventStoreDbLocation {
  url: string;
  /** The prefix of the test's streams, which separates them from all others on the server. */
  prefix: string;
  /** The stand-in; null on a real server. */
  fake: FakeEventStoreDb | null;
  close(): Promise<void>;
}

export function somePrefix(): string {
  return `t${randomBytes(8).toString('hex')}`;
}

/**
 * Returns the environment with which a service keeps its log in EventStoreDB if the tests run with EVENT_STORE=eventstoredb: on the server
 * that EVENTSTORE_URL names, or on the run's stand-in. `log` names one log. Returns null if logs are in PostgreSQL.
 */
export function eventStoreEnvironment(log: string): { EVENT_STORE: string; EVENTSTORE_URL: string; EVENTSTORE_PREFIX: string } | null {
  const { EVENT_STORE, EVENTSTORE_URL, MOORING_TEST_EVENTSTORE } = process.env;
  if (EVENT_STORE !== 'eventstoredb') return null;
  const prefix = `t${createHash('sha256').update(log).digest('hex').slice(0, 16)}`;
  return { EVENT_STORE, EVENTSTORE_URL: EVENTSTORE_URL || (MOORING_TEST_EVENTSTORE ?? ''), EVENTSTORE_PREFIX: prefix };
}

/** Opens a log for one test: on the server that EVENTSTORE_URL names, or on a new stand-in. */
export async function eventStoreDbLocation(): Promise<EventStoreDbLocation> {
  const url = process.env.EVENTSTORE_URL;
  if (url !== undefined && url !== '') return { url, prefix: somePrefix(), fake: null, close: async () => undefined };
  const standIn = await FakeEventStoreDb.start();
  return { url: standIn.url, prefix: somePrefix(), fake: standIn, close: () => standIn.stop() };
}
