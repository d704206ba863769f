import { evolved, type DatedState } from '../../aggregates/dated-state.ts';

/** A row that holds a decider's state. */
interface StateRow<S> {
  state: S;
  revision: number;
  created_at: string;
  updated_at: string;
}

/** Returns the state after the event, as a decider's states are folded from the stream; `row` is undefined before the first event. */
export function evolvedRow<S, E>(
  evolve: (state: S | null, event: E) => S | null,
  row: StateRow<S> | undefined,
  event: { at: string; revision: number } & E,
): DatedState<S | null> & { revision: number } {
  const before = { state: row?.state ?? null, createdAt: row?.created_at ?? '', changedAt: row?.updated_at ?? '' };
  // The members are copied by name, because rebuilds apply millions of events and a spread takes many times as long.
  const { state, createdAt, changedAt } = evolved(evolve, before, event);
  return { state, createdAt, changedAt, revision: event.revision };
}
