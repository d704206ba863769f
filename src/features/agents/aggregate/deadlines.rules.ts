import type { Config } from '../../../kernel/config/config.ts';
import { deadlineIn, sleepDeadline, stopDeadline } from '../../../sandboxes/lifecycle/deadlines.rules.ts';
import type { Release } from './agent-state.rules.ts';

/** The installation's setting for how long a release may take to start unless its template says otherwise. */
export interface StartTimes {
  startTimeoutSeconds: number;
}

/** The time in seconds for which a deployment may wait for a place to build or pull. */
const DEPLOY_WAIT_SECONDS_MAX = 3_600;

/** Returns the time in seconds within which a container of the release must be ready after its start. */
export function startTimeoutOf(release: Release | null, { startTimeoutSeconds }: StartTimes): number {
  return release?.startTimeoutSeconds ?? startTimeoutSeconds;
}

/**
 * Returns functions from the start of a transition to its deadline (ISO 8601), for the transitions that may take the same time for every
 * agent.
 */
export function transitionDeadlines(config: Pick<Config, 'deployTimeoutSeconds'>) {
  const waitSeconds = Math.max(config.deployTimeoutSeconds, DEPLOY_WAIT_SECONDS_MAX);
  return {
    deploy: (now: Date) => deadlineIn(config.deployTimeoutSeconds, now),
    /** The deadline of a deployment's wait for a place, in which its own time does not run. */
    deployWait: (now: Date) => deadlineIn(waitSeconds, now),
    /**
     * The deadlines of a deployment that had begun and has to wait for a place again, because the service ended. However often that happens, they are at
     * most the time of one wait after the deadline that the deployment got first.
     */
    deployWaitAgain: (firstDeadlineAt: string) => deadlineIn(waitSeconds, new Date(firstDeadlineAt)),
    deployAgain: (firstDeadlineAt: string, now: Date) => {
      const latest = deadlineIn(waitSeconds, new Date(firstDeadlineAt));
      const fresh = deadlineIn(config.deployTimeoutSeconds, now);
      return fresh < latest ? fresh : latest;
    },
    stop: stopDeadline,
    sleep: sleepDeadline,
  };
}
