import { channel } from 'node:diagnostics_channel';

import { SAGA_STEP_CHANNEL, type SagaStep } from './saga.ts';

const steps = channel(SAGA_STEP_CHANNEL);

/** A saga calls it after each step that it completed; costs nothing where nobody listens. */
export function sagaStep(saga: string, key: string, step: string): void {
  if (steps.hasSubscribers) steps.publish({ saga, key, step } satisfies SagaStep);
}
