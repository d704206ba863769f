import type { Decider } from '../event-store/event-definition.ts';
import { START, type Position, type StoredEvent } from '../event-store/event-store.ts';
import { evolved, type DatedState } from './dated-state.ts';
import { DerivedIds } from './derived-ids.ts';

/** The state that one decider built from a stream's events, up to one of them. It is immutable, since callers share it. */
export interface StreamState<S = unknown> extends DatedState<S> {
  /** The revision of the last event; -1 if the stream does not exist. */
  readonly revision: number;
  /** The position of the last event; `START` if the stream does not exist. */
  readonly position: Position;
  /** The id of the last event; empty if the stream does not exist. After a restore, it shows whether the stream still holds that event. */
  readonly eventId: string;
  /** The ids of the latest records. */
  readonly derivedIds: DerivedIds;
  /** The account that owns the stream, as its latest event with an account says. */
  readonly account: string | null;
  /** The revision of the latest snapshot; -1 if none is known. */
  readonly snapshotAt: number;
}

// Each decider has types of its own for commands and events; its cached state is the same for all.
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export type AnyDecider<S = any> = Decider<S, any, any>;

export function absentState<S>(decider: AnyDecider<S>): StreamState<S> {
  return {
    state: decider.initialState(),
    createdAt: '',
    changedAt: '',
    revision: -1,
    position: START,
    eventId: '',
    derivedIds: DerivedIds.none,
    account: null,
    snapshotAt: -1,
  };
}

/** Returns the state after the events. Throws `RangeError` if an event does not directly follow the one before. */
export function applyEvents<S>(decider: AnyDecider<S>, from: StreamState<S>, events: readonly StoredEvent[]): StreamState<S> {
  const last = events.at(-1);
  if (last === undefined) return from;
  let dated: DatedState<S> = from;
  let { revision } = from;
  for (const event of events) {
    if (event.revision !== revision + 1) throw new RangeError(`${event.stream}: event ${event.revision} does not follow ${revision}`);
    dated = evolved(decider.evolve, dated, event);
    revision = event.revision;
  }
  const account = last.metadata.account_id ?? from.account;
  const derivedIds = from.derivedIds.with(events.map(({ id }) => id));
  return { ...from, ...dated, revision, position: last.position, eventId: last.id, derivedIds, account };
}
