import type { KindRules } from '../../../sandboxes/index.ts';
import type { ComputerRecord } from '../aggregate/computer-records.rules.ts';
import { isInTransit, type Computer } from '../aggregate/computer-state.rules.ts';
import { isLimitMessage } from '../memory/memory-limits.ts';
import { nextCheckAt, nextStep, type OwnStep } from './next-step.rules.ts';

/** Returns the rules by which the reconciler reads a computer's state. `knownImage` returns the image of computers, or null. */
export function computerRules(knownImage: () => string | null): KindRules<Computer, ComputerRecord, OwnStep> {
  return {
    nextStep: (computer, actual, rules, now) => nextStep(computer, actual, rules, now, knownImage()),
    nextCheckAt,
    isInTransit,
    isBeingDeleted: ({ status }) => status === 'deleting',
    isGone: ({ status }) => status === 'deleted',
    isOutdated: (before, now) => now.status !== before.status || now.generation !== before.generation,
    statusOf: ({ status }) => status,
    wantedStates({ status, sleepDepth, wantedSleep }) {
      if (status === 'awake') return ['running'];
      return status === 'asleep' && sleepDepth === 'frozen' && wantedSleep !== 'stopped' ? ['frozen'] : [];
    },
    mayReuseObservation: ({ status }) => status === 'creating',
    waitsForEngine: () => true,
    failure: (_computer, _kind, reason) =>
      isLimitMessage(reason) ? { type: 'RecordNoCapacity', reason } : { type: 'RecordFailure', kind: 'runtime', reason },
  };
}
