import type { Config } from '../../platform/config/config.ts';
import type { Release } from './agent-state.decider.ts';

/** The time in seconds on top of the start timeout, for creating the container and for the engine. */
const MARGIN_SECONDS = 30;
/** The time in seconds for a stop: a template may ask for up to 120 s between SIGTERM and SIGKILL. */
const STOP_SECONDS = 150;
const SLEEP_SECONDS = 150;

/** The setting of the installation that decides how long a release without a time of its own may take to start. */
export interface StartTimes {
  startTimeoutSeconds: number;
}

/** Returns the time in seconds within which a container of the release must be ready after its start. */
export function startTimeoutOf(release: Release | null, { startTimeoutSeconds }: StartTimes): number {
  return release?.startTimeoutSeconds ?? startTimeoutSeconds;
}

/** Returns the time in seconds within which a start or a wake must be over. */
export function bringUpSeconds(release: Release | null, times: StartTimes): number {
  return startTimeoutOf(release, times) + MARGIN_SECONDS;
}

/** Returns the time in seconds within which a restart must be over. It includes the end of the running container, or the backoff of a crash. */
export function restartSeconds(release: Release | null, times: StartTimes): number {
  return startTimeoutOf(release, times) + STOP_SECONDS;
}

/** Returns the deadline (ISO 8601) of a transition that begins now. It is stored with the event that begins the transition. */
export function deadlineIn(seconds: number, now: Date): string {
  return new Date(now.getTime() + seconds * 1000).toISOString();
}

/** Returns the deadline (ISO 8601) of each transition that takes the same time for every agent, as a function of its start. */
export function transitionDeadlines(config: Pick<Config, 'deployTimeoutSeconds'>) {
  const after = (seconds: number) => (now: Date) => deadlineIn(seconds, now);
  return {
    deploy: after(config.deployTimeoutSeconds),
    stop: after(STOP_SECONDS),
    /** A sleep in which the container is stopped takes as long as a stop. */
    sleep: after(SLEEP_SECONDS),
  };
}
