import {
  bringUp,
  isUp,
  keepAsleep,
  keepUp,
  mineOf,
  nextCheckAt as nextCheckOf,
  isOverdue,
  putToSleep,
  removeStale,
  rest,
  stopRunning,
  tearDown,
  type ActualState,
  type StepRules,
  type Step as StepOf,
} from '../../../sandboxes/lifecycle/steps.rules.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import type { Computer } from '../aggregate/computer-state.rules.ts';

/** A step that only computers have. `owner` is the replica that ended during work on the computer. */
export type OwnStep = { do: 'resolve_image' } | { do: 'release_input'; owner: string };

export type Step = StepOf<ComputerRecord, OwnStep>;

/**
 * Returns the next step that brings the computer's container to the desired state in its stream. `image` is the installation's image of
 * computers; null if it is not resolved yet.
 */
export function nextStep(computer: Computer, actual: ActualState, rules: StepRules, now: Date, image: string | null): Step {
  switch (computer.status) {
    case 'deleting':
      return tearDown(actual) ?? { do: 'erase' };
    case 'deleted':
      return tearDown(actual) ?? rest;
    case 'creating':
    case 'waking':
      return wake(computer, actual, rules, now, image);
    case 'awake':
      return keepAwake(computer, actual, rules, now);
    case 'going_to_sleep':
      return putToSleep(computer, actual, rules, now);
    case 'asleep':
      return keepAsleep(computer, actual, rules, now);
    case 'error':
      // A computer that can't be used must not take memory.
      return removeStale(computer, actual) ?? stopRunning(computer, actual) ?? rest;
  }
}

/** Returns the computer's next deadline, at which it is checked without an event; null if it has none. */
export function nextCheckAt(computer: Computer, actual: ActualState, rules: StepRules, now: Date): Date | null {
  return nextCheckOf(computer, actual, idleSeconds(computer), rules, now);
}

/** Returns the idle time after which an awake computer sleeps, in seconds; null if it never sleeps by itself. */
function idleSeconds({ status, settings: { idle_timeout_seconds: seconds } }: Computer): number | null {
  return status === 'awake' && seconds !== 0 ? seconds : null;
}

/**
 * Releases the input once for each replica that ended while it worked on the computer. A sleeping computer needs no such step, because a
 * new connection releases everything.
 */
function keepAwake(computer: Computer, actual: ActualState, rules: StepRules, now: Date): Step {
  const step: Step = keepUp(computer, actual, idleSeconds(computer), rules, now);
  const { abandonedBy: owner } = actual;
  if (step.do !== 'rest' || owner === null || owner === computer.inputReleasedFor) return step;
  return { do: 'own', own: { do: 'release_input', owner } };
}

function wake(computer: Computer, actual: ActualState, rules: StepRules, now: Date, image: string | null): Step {
  const mine = mineOf(computer, actual);
  if (computer.activeSince !== null && mine?.state !== 'running') {
    // Its wake was requested before it slept, and it slept nevertheless, which ends its time awake.
    return { do: 'record', record: { type: 'RecordSlept', depth: mine?.state === 'frozen' ? 'frozen' : 'stopped' } };
  }
  // A frozen computer keeps its container, even if there is a newer image.
  const isOutdated = computer.image === null || (image !== null && image !== computer.image && (mine === undefined || !isUp(mine)));
  if (isOutdated && !isOverdue(computer, now)) return { do: 'own', own: { do: 'resolve_image' } };
  return bringUp(computer, actual, computer.status === 'waking', rules, now);
}
