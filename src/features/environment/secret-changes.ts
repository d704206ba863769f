import type { Sealed } from '../../crypto/keyring.ts';
import { changesSince } from '../../eventsourcing/log/changes-since.ts';
import { START, type Position, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import type { EnvironmentEvent } from './environment.events.ts';

/** The values that an agent's variables have had since a moment. */
export interface SecretChanges {
  /** The end of the log at that moment. */
  since: Position;
  values: { key: string; sealed: Sealed }[];
  /** The names of secrets of the account from which variables took their values. */
  names: Set<string>;
}

/**
 * Returns the secret values that changed since the agent's deployment was requested: those that were set since, and those that they
 * replaced. `events` are the agent's events, newest first. Returns null if the request, or the values before it, are not among the last
 * 10,000 events.
 */
export async function secretChanges(events: AsyncIterable<StoredEvent>, deploymentId: string): Promise<SecretChanges | null> {
  const found: SecretChanges = { since: START, values: [], names: new Set() };
  const changes = await changesSince(events, keyOf, ({ type, data, position }) => {
    const isRequest = type === 'DeploymentRequested' && data.deployment_id === deploymentId;
    if (isRequest) found.since = position;
    return isRequest;
  });
  if (changes === null || !changes.isReached) return null;
  for (const event of changes.events) {
    const { type, data } = event as unknown as EnvironmentEvent;
    if (type === 'VariableSet' && data.sealed !== null) found.values.push({ key: data.key, sealed: data.sealed });
    if (type === 'VariableLinked') found.names.add(data.secret);
  }
  return found;
}

function keyOf(event: StoredEvent): string | null {
  const { type, data } = event as unknown as EnvironmentEvent;
  return type === 'VariableSet' || type === 'VariableLinked' || type === 'VariableRemoved' ? data.key : null;
}
