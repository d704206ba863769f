import fc from 'fast-check';

import { owner, steps, walk } from '../../../../test/support/computer-arbitraries.ts';
import { fold, NOON } from '../../../../test/support/decider-spec.ts';
import { computerStatuses, isInTransit, type Computer, type ComputerState } from './computer-state.rules.ts';
import { computerDecider, type ComputerCommand } from './computers.decider.ts';
import type { ComputerEvent } from './computers.events.ts';

/**
 * Checks that a computer is never in an inconsistent state, whatever callers request and the saga records, in any order, while the clocks of
 * the service and of the engine move.
 */

const asleepOrWaking = ['asleep', 'waking'];

/** Looks at each step of long walks, so the rules are compared without `expect`, which takes far longer than the step itself. */
function expectSane(before: Computer, computer: Computer, events: ComputerEvent[]): void {
  const { status } = computer;
  const rules = {
    'has a status that is known': computerStatuses.includes(status),
    'has a deadline while it is in transit, and only then': (computer.deadlineAt !== null) === isInTransit(computer),
    'knows since when it is made or goes to sleep': !['creating', 'going_to_sleep'].includes(status) || computer.requestedAt !== null,
    'has a time of its restart only while it wakes': computer.restartAt === null || status === 'waking',
    'has a depth of sleep only while it sleeps or wakes': computer.sleepDepth === null || asleepOrWaking.includes(status),
    'has a depth and a time of sleep while it sleeps': status !== 'asleep' || (computer.sleepDepth !== null && computer.sleptAt !== null),
    'has a wanted sleep only while it goes to sleep or sleeps':
      computer.wantedSleep === null || ['going_to_sleep', 'asleep'].includes(status),
    'has the time since which it is awake while it is': status !== 'awake' || computer.activeSince !== null,
    'is awake before it sleeps, or not at all': computer.activeSince === null || ['awake', 'going_to_sleep', 'waking'].includes(status),
    'knows what it wakes from while it wakes, and only then': (computer.wakesFrom !== null) === ['creating', 'waking'].includes(status),
    'has a failure in an error, and only then': (computer.failure !== null) === (status === 'error'),
    'has a message in an error': status !== 'error' || computer.message !== null,
    'never goes back to an earlier generation': computer.generation >= before.generation,
    'has the settings of its container': computer.boot.generation === computer.generation,
    'has no events once it is deleted': before.status !== 'deleted' || events.length === 0,
    'goes on being deleted': before.status !== 'deleting' || ['deleting', 'deleted'].includes(status),
  };
  const broken = Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [rule]));
  if (broken.length > 0) expect({ status, broken }).toEqual({ status, broken: [] });
}

interface Interval {
  from: string;
  to: string | null;
}

/** Returns the times awake that the events tell. */
function intervalsOf(log: readonly ComputerEvent[]): Interval[] {
  const intervals: Interval[] = [];
  const end = (to: string) => {
    const open = intervals.at(-1);
    if (open?.to === null) open.to = to;
  };
  for (const event of log) {
    switch (event.type) {
      case 'ComputerWoke':
        if (event.data.after === 'awake') expect(intervals.at(-1)).toEqual({ from: event.data.started_at, to: null });
        else intervals.push({ from: event.data.started_at, to: null });
        break;
      case 'ComputerSlept':
        end(event.data.slept_at);
        break;
      case 'ComputerExited':
        end(event.data.exited_at);
        break;
      case 'ComputerFailed':
        end(event.data.failed_at);
        break;
      case 'ComputerDeletionRequested':
        end(event.data.requested_at);
        break;
      default:
        break;
    }
  }
  return intervals;
}

it('is never in an illegal state', () => {
  fc.assert(
    fc.property(steps, (plan) => void walk(plan, expectSane)),
    { numRuns: 500 },
  );
});

it('is awake in one time after the other, which neither overlap nor run backwards, whatever the clock of the engine says', () => {
  fc.assert(
    fc.property(steps, (plan) => {
      let now = NOON;
      const { state, log } = walk(plan, (_before, _after, _events, at) => (now = at));
      const intervals = intervalsOf(log);
      let last = '';
      for (const [index, { from, to }] of intervals.entries()) {
        expect(from >= last).toBe(true);
        expect(to === null ? index === intervals.length - 1 : to >= from).toBe(true);
        last = to ?? from;
      }
      expect(intervals.length === 0 || last <= now.toISOString()).toBe(true);
      const open = intervals.at(-1);
      expect(open?.to === null ? open.from : null).toBe(state.activeSince);
    }),
    { numRuns: 500 },
  );
});

it('has the same state when its events are applied again, and after a round trip through JSON', () => {
  fc.assert(
    fc.property(steps, (plan) => {
      const { state, log } = walk(plan, () => undefined);
      expect(fold(computerDecider, log)).toEqual(state);
      expect(JSON.parse(JSON.stringify(state))).toEqual(state);
    }),
    { numRuns: 300 },
  );
});

it('leaves every transition by its deadline, wakes from every rest, and can be deleted in every status', () => {
  fc.assert(
    fc.property(steps, (plan) => {
      walk(plan, (_, computer) => {
        const decide = (state: ComputerState, command: ComputerCommand) =>
          computerDecider.decide(command, state, NOON).reduce<ComputerState>((after, event) => computerDecider.evolve(after, event), state);
        const overdue = decide(computer, { type: 'RecordFailure', kind: 'timeout', reason: 'late' });
        expect(overdue?.status).toBe(isInTransit(computer) ? 'error' : computer.status);
        if (computer.status === 'deleted') return;
        if (computer.status !== 'deleting') {
          const times = { fromError: true, startTimeoutSeconds: 60, deployTimeoutSeconds: 600 };
          const woken = decide(overdue ?? null, { type: 'WakeComputer', accountId: owner, trigger: 'wake', ...times });
          expect(['awake', 'waking']).toContain(woken?.status);
          expect(decide(woken, { type: 'RecordReady', generation: woken?.generation ?? 0 })?.status).toBe('awake');
        }
        const gone = decide(decide(computer, { type: 'DeleteComputer', accountId: owner }), { type: 'RecordDeleted' });
        expect(gone?.status).toBe('deleted');
      });
    }),
    { numRuns: 200 },
  );
});

it('reaches every status in the random walks', () => {
  const seen = new Set<string>();
  for (const plan of fc.sample(steps, { numRuns: 600, seed: 7 })) walk(plan, (_, computer) => void seen.add(computer.status));
  expect([...seen].toSorted((a, b) => a.localeCompare(b))).toEqual([...computerStatuses].toSorted((a, b) => a.localeCompare(b)));
});
