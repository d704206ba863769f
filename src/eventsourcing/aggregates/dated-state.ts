import type { Position } from '../event-store/event-store.ts';

/** A state with the times at which it began and last changed, by the store's clock. Events that leave the state as it is do not count. */
export interface DatedState<S> {
  readonly state: S;
  /** The time of the event that first changed the state, ISO 8601; empty if none did. */
  readonly createdAt: string;
  /** The time of the event that last changed the state, ISO 8601; empty if none did. */
  readonly changedAt: string;
}

/** The state of a stream, up to one of its events. */
export interface Loaded<S> extends DatedState<S> {
  /** The revision of the last event; -1 if the stream does not exist. */
  revision: number;
  /** The position of the last event; `START` if the stream does not exist. */
  position: Position;
}

/** Returns the state after the event. */
export function evolved<S, E>(evolve: (state: S, event: E) => S, before: DatedState<S>, event: { at: string } & E): DatedState<S> {
  const state = evolve(before.state, event);
  if (state === before.state) return before;
  return { state, createdAt: before.createdAt === '' ? event.at : before.createdAt, changedAt: event.at };
}
