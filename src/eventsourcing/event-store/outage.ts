import { isDatabaseAway } from '../../postgres/database/database-away.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';
import { EventStoreUnavailable, OutcomeUnknown } from './event-store.ts';

/** Returns whether the work failed because the event store or the database was unavailable, so that a repeat may succeed. */
export function isOutage(error: unknown): boolean {
  if (error instanceof Refusal) return error.code === 'event_store_unavailable';
  return error instanceof EventStoreUnavailable || error instanceof OutcomeUnknown || isDatabaseAway(error);
}
