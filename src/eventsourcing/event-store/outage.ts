import { isDatabaseUnavailable } from '../../postgres/database/database-unavailable.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { EventStoreUnavailable, OutcomeUnknown } from './event-store.ts';

/** Returns whether the work failed because the event store or the database was unavailable, so that a repeat may succeed. */
export function isOutage(error: unknown): boolean {
  if (error instanceof ProblemError) return error.code === 'event_store_unavailable';
  return error instanceof EventStoreUnavailable || error instanceof OutcomeUnknown || isDatabaseUnavailable(error);
}
