import type { Sealed } from '../platform/crypto/keyring.ts';
import { START, type Position, type StoredEvent } from '../platform/event-store/event-store.ts';
import type { EnvironmentEvent } from './environment.events.ts';

/** The events that are read back at most, for the values that somebody had since a moment. */
const EVENTS_MAX = 10_000;

/** Values that an agent's variables had from a moment on. */
export interface SecretChanges {
  /** The end of the log at that moment. */
  since: Position;
  values: { key: string; sealed: Sealed }[];
  /** The names of secrets of the account from which variables took their values. */
  names: Set<string>;
}

/**
 * Returns the secret values that changed since the agent's deployment was requested: those that were set since, and those that they took the place
 * of. `events` are the agent's, the newest first. Returns null if the request is not among the last 10,000, or the values before it are not.
 */
export async function secretChanges(events: AsyncIterable<StoredEvent>, deploymentId: string): Promise<SecretChanges | null> {
  const found: SecretChanges = { since: START, values: [], names: new Set() };
  /** The variables whose values before the deployment are still looked for. */
  const before = new Set<string>();
  let isBefore = false;
  let count = 0;
  for await (const event of events) {
    if (isBefore && before.size === 0) return found;
    if ((count += 1) > EVENTS_MAX) return null;
    const { type, data } = event as unknown as EnvironmentEvent;
    if (type === 'VariableSet' || type === 'VariableLinked' || type === 'VariableRemoved') {
      if (isBefore && !before.delete(data.key)) continue;
      if (!isBefore) before.add(data.key);
      if (type === 'VariableSet' && data.sealed !== null) found.values.push({ key: data.key, sealed: data.sealed });
      if (type === 'VariableLinked') found.names.add(data.secret);
    } else if (event.type === 'DeploymentRequested' && event.data.deployment_id === deploymentId) {
      isBefore = true;
      found.since = event.position;
    }
  }
  return isBefore ? found : null;
}
