import type { Decider } from '../event-definition.ts';
import { START, type Position, type StoredEvent } from '../event-store.ts';
import { DerivedIds } from './derived-ids.ts';

/** What one decider made of a stream's events, up to one of them. Never changed in place: states are shared between calls. */
export interface StreamState<S = unknown> {
  readonly state: S;
  /** Of the last event; -1 where the stream is absent. */
  readonly revision: number;
  /** Of the last event; `START` where the stream is absent. */
  readonly position: Position;
  /** Of the last event; empty where the stream is absent. It tells this stream from another past of it, after a restore. */
  readonly eventId: string;
  /** Of the latest records. */
  readonly derivedIds: DerivedIds;
  /** Whose the stream is: the account that its latest event with one names. */
  readonly account: string | null;
  /** The revision at which the latest snapshot was taken; -1 where none is known of. */
  readonly snapshotAt: number;
}

// Deciders are each typed by their own commands and events; what is kept of them is the same for all.
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export type AnyDecider<S = any> = Decider<S, any, any> & {
  /** The state as another place keeps it, up to some revision; null where it keeps none. It spares the fold of a long stream. */
  standing?: (stream: string) => Promise<{ state: S; revision: number } | null>;
};

export function absent<S>(decider: AnyDecider<S>): StreamState<S> {
  return {
    state: decider.initialState(),
    revision: -1,
    position: START,
    eventId: '',
    derivedIds: DerivedIds.none,
    account: null,
    snapshotAt: -1,
  };
}

/** The state with the events that follow it. Throws where an event is not the next one. */
export function advanced<S>(decider: AnyDecider<S>, from: StreamState<S>, events: readonly StoredEvent[]): StreamState<S> {
  const last = events.at(-1);
  if (last === undefined) return from;
  let { state, revision, account } = from;
  for (const event of events) {
    if (event.revision !== revision + 1) throw new RangeError(`${event.stream}: event ${event.revision} does not follow ${revision}`);
    state = decider.evolve(state, event);
    revision = event.revision;
  }
  account = last.metadata.account_id ?? account;
  const derivedIds = from.derivedIds.with(events.map(({ id }) => id));
  return { ...from, state, revision, position: last.position, eventId: last.id, derivedIds, account };
}
