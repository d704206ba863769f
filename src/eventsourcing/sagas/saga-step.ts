import { channel } from 'node:diagnostics_channel';

import { SAGA_STEP_CHANNEL, type SagaStep } from './saga.ts';

const steps = channel(SAGA_STEP_CHANNEL);

/** Publishes a completed step of a saga. It costs nothing without subscribers. */
export function sagaStep(saga: string, key: string, step: string): void {
  if (steps.hasSubscribers) steps.publish({ saga, key, step } satisfies SagaStep);
}
