import fc from 'fast-check';

import { ProblemError } from '../../src/kernel/errors/problem-error.ts';
import type { Decider } from '../../src/eventsourcing/event-store/event-definition.ts';
import { fold, NOON } from './decider-spec.ts';

export interface Step<Command> {
  afterMs: number;
  command: Command;
}

/** Returns plans of commands, in any order, while the clock moves. A deletion is rare, because nothing can happen after it. */
export function plansOf<Command>(kinds: {
  asked: fc.Arbitrary<Command>;
  recorded: fc.Arbitrary<Command>;
  deletion: fc.Arbitrary<Command>;
}): fc.Arbitrary<Step<Command>[]> {
  return fc.array(
    fc.record({
      afterMs: fc.integer({ min: 0, max: 1_200_000 }),
      command: fc.oneof(
        { weight: 12, arbitrary: kinds.asked },
        { weight: 24, arbitrary: kinds.recorded },
        { weight: 1, arbitrary: kinds.deletion },
      ),
    }),
    { maxLength: 60, size: 'max' },
  );
}

/** A random sequence of states that commands lead through. */
export interface Walked<State, Command, Event extends { type: string; data: unknown }> {
  decider: Decider<State | null, Command, Event>;
  create: Command;
  /** Directs the command at the current state, as most commands of a saga are. */
  aim: (command: Command, state: State) => Command;
}

/** Runs the plan from the creation on; each command sees the state that the previous one left, and refused commands change nothing. */
export function walkDecider<State, Command, Event extends { type: string; data: unknown }>(
  { decider, create, aim }: Walked<State, Command, Event>,
  plan: readonly Step<Command>[],
  see: (before: State, after: State, events: Event[], at: Date) => void,
): { state: State; log: Event[] } {
  const log: Event[] = decider.decide(create, null, NOON);
  let state = fold(decider, log) as State;
  let now = NOON.getTime();
  for (const [index, { afterMs, command }] of plan.entries()) {
    now += afterMs;
    let events: Event[];
    try {
      events = decider.decide(index % 4 === 0 ? command : aim(command, state), deepFreeze(state), new Date(now));
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      continue;
    }
    // The events pass through JSON, as they do in the store.
    const stored = JSON.parse(JSON.stringify(events)) as Event[];
    const before = state;
    state = stored.reduce<State | null>((folded, event) => decider.evolve(folded, event), state) as State;
    log.push(...stored);
    see(before, state, stored, new Date(now));
  }
  return { state, log };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(deepFreeze);
  return value;
}
