import type { Decider } from '../../src/eventsourcing/event-store/event-definition.ts';
import { ProblemError, type ErrorCode } from '../../src/kernel/errors/problem-error.ts';

/** The time of a decision if a test does not set one. */
export const NOON = new Date('2026-03-01T12:00:00.000Z');

/** Tests a decider: `given(decider, ...events).when(command, now).then(...events)`, or `.refuses(code)`. */
export function given<State, Command, Event extends { type: string; data: unknown }>(
  decider: Decider<State, Command, Event>,
  ...events: Event[]
) {
  const state = fold(decider, events);
  return {
    state,
    when(command: Command, now: Date = NOON) {
      const decide = () => decider.decide(command, state, now);
      return {
        // oxlint-disable-next-line unicorn/no-thenable -- the third word of given, when, then; nobody awaits it
        then(...expected: Event[]): void {
          expect(decide()).toEqual(expected);
        },
        refuses(code: ErrorCode): void {
          expect(refusalOf(decide)?.code).toBe(code);
        },
      };
    },
  };
}

/** Returns the state after the events, beginning with the initial state. */
export function fold<State, Command, Event extends { type: string; data: unknown }>(
  decider: Decider<State, Command, Event>,
  events: readonly Event[],
): State {
  return events.reduce((state, event) => decider.evolve(state, event), decider.initialState());
}

/** Returns the error that the call throws as a refusal, or null if it throws nothing; any other error is rethrown. */
export function refusalOf(call: () => unknown): ProblemError | null {
  try {
    call();
    return null;
  } catch (error) {
    if (error instanceof ProblemError) return error;
    throw error;
  }
}
