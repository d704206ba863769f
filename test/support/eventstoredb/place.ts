import { randomBytes } from 'node:crypto';
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

/** A log of a test's own: on the server that EVENTSTORE_URL names, or on a stand-in that starts with it. */
export async function eventStoreDbPlace(): Promise<EventStoreDbPlace> {
  const url = process.env.EVENTSTORE_URL;
  if (url !== undefined && url !== '') return { url, prefix: somePrefix(), standIn: null, close: async () => undefined };
  const standIn = await StandIn.start();
  return { url: standIn.url, prefix: somePrefix(), standIn, close: () => standIn.stop() };
}
