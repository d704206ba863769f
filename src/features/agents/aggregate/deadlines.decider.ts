import type { Config } from '../../../kernel/config/config.ts';
import { deadlineIn, sleepDeadline, stopDeadline } from '../../../sandboxes/lifecycle/deadlines.decider.ts';
import type { Release } from './agent-state.decider.ts';

/** The setting of the installation that decides how long a release without a time of its own may take to start. */
export interface StartTimes {
  startTimeoutSeconds: number;
}

/** Returns the time in seconds within which a container of the release must be ready after its start. */
export function startTimeoutOf(release: Release | null, { startTimeoutSeconds }: StartTimes): number {
  return release?.startTimeoutSeconds ?? startTimeoutSeconds;
}

/** Returns the deadline (ISO 8601) of each transition that takes the same time for every agent, as a function of its start. */
export function transitionDeadlines(config: Pick<Config, 'deployTimeoutSeconds'>) {
  return {
    deploy: (now: Date) => deadlineIn(config.deployTimeoutSeconds, now),
    stop: stopDeadline,
    sleep: sleepDeadline,
  };
}
