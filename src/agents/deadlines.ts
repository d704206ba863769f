import type { Config } from '../config.ts';

/** Beyond the time that a container has to become ready: for making it, and for the engine. */
const MARGIN_SECONDS = 30;
/** A template may ask for up to 120 s between SIGTERM and SIGKILL. */
const STOP_SECONDS = 150;
const SLEEP_SECONDS = 150;

/** Within which a container that takes the place of a crashed one has to be ready, back-off included. */
export const restartTimeoutSeconds = ({ startTimeoutSeconds }: Pick<Config, 'startTimeoutSeconds'>) => startTimeoutSeconds + STOP_SECONDS;

/** Until when (ISO 8601) a transition that begins now has to be over; stored with the event that begins it. */
export function transitionDeadlines(config: Pick<Config, 'startTimeoutSeconds' | 'deployTimeoutSeconds'>) {
  const after = (seconds: number) => (now: Date) => new Date(now.getTime() + seconds * 1000).toISOString();
  return {
    deploy: after(config.deployTimeoutSeconds),
    start: after(config.startTimeoutSeconds + MARGIN_SECONDS),
    /** What runs has to end first. */
    restart: after(restartTimeoutSeconds(config)),
    wake: after(config.startTimeoutSeconds + MARGIN_SECONDS),
    stop: after(STOP_SECONDS),
    /** A sleep in which the container is stopped takes as long as a stop. */
    sleep: after(SLEEP_SECONDS),
  };
}
