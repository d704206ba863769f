import type { Config } from '../../platform/config/config.ts';

/** The time in seconds on top of the start timeout, for creating the container and for the engine. */
const MARGIN_SECONDS = 30;
/** The time in seconds for a stop: a template may ask for up to 120 s between SIGTERM and SIGKILL. */
const STOP_SECONDS = 150;
const SLEEP_SECONDS = 150;

/** Returns the time in seconds within which the replacement of a crashed container must be ready, including the backoff. */
export const restartTimeoutSeconds = ({ startTimeoutSeconds }: Pick<Config, 'startTimeoutSeconds'>) => startTimeoutSeconds + STOP_SECONDS;

/**
 * Returns the deadline (ISO 8601) of each transition as a function of its start. It is stored with the event that begins the transition.
 */
export function transitionDeadlines(config: Pick<Config, 'startTimeoutSeconds' | 'deployTimeoutSeconds'>) {
  const after = (seconds: number) => (now: Date) => new Date(now.getTime() + seconds * 1000).toISOString();
  return {
    deploy: after(config.deployTimeoutSeconds),
    start: after(config.startTimeoutSeconds + MARGIN_SECONDS),
    /** The running container has to end first. */
    restart: after(restartTimeoutSeconds(config)),
    wake: after(config.startTimeoutSeconds + MARGIN_SECONDS),
    stop: after(STOP_SECONDS),
    /** A sleep in which the container is stopped takes as long as a stop. */
    sleep: after(SLEEP_SECONDS),
  };
}
