import { createHash, randomBytes } from 'node:crypto';
import { StandIn } from './stand-in.ts';

export interface EventStoreDbPlace {
  url: string;
  /** Keeps what a test writes apart from all else that the server holds. */
  prefix: string;
  /** Null on a real server. */
  standIn: StandIn | null;
  close(): Promise<void>;
}

export function somePrefix(): string {
  return `t${randomBytes(8).toString('hex')}`;
}

/**
 * What a service has to be told so that its log is in EventStoreDB, where the tests run with EVENT_STORE=eventstoredb: on the
 * server that EVENTSTORE_URL names, or on the run's stand-in. `log` names one log; null where logs are in PostgreSQL.
 */
export function eventStoreEnvironment(log: string): { EVENT_STORE: string; EVENTSTORE_URL: string; EVENTSTORE_PREFIX: string } | null {
  const { EVENT_STORE, EVENTSTORE_URL, MOORING_TEST_EVENTSTORE } = process.env;
  if (EVENT_STORE !== 'eventstoredb') return null;
  const prefix = `t${createHash('sha256').update(log).digest('hex').slice(0, 16)}`;
  return { EVENT_STORE, EVENTSTORE_URL: EVENTSTORE_URL || (MOORING_TEST_EVENTSTORE ?? ''), EVENTSTORE_PREFIX: prefix };
}

/** A log of a test's own: on the server that EVENTSTORE_URL names, or on a stand-in that starts with it. */
export async function eventStoreDbPlace(): Promise<EventStoreDbPlace> {
  const url = process.env.EVENTSTORE_URL;
  if (url !== undefined && url !== '') return { url, prefix: somePrefix(), standIn: null, close: async () => undefined };
  const standIn = await StandIn.start();
  return { url: standIn.url, prefix: somePrefix(), standIn, close: () => standIn.stop() };
}
