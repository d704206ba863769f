/** The time in seconds on top of the start timeout, for creating the container and for the engine. */
const MARGIN_SECONDS = 30;
/** The time in seconds for a stop: a template may set up to 120 s between SIGTERM and SIGKILL. */
const STOP_SECONDS = 150;
/** A sleep in which the container is stopped takes as long as a stop. */
const SLEEP_SECONDS = STOP_SECONDS;

/** Returns the deadline (ISO 8601) of a transition that begins now. It is stored with the event that begins the transition. */
export function deadlineIn(seconds: number, now: Date): string {
  return new Date(now.getTime() + seconds * 1000).toISOString();
}

export function stopDeadline(now: Date): string {
  return deadlineIn(STOP_SECONDS, now);
}

export function sleepDeadline(now: Date): string {
  return deadlineIn(SLEEP_SECONDS, now);
}

/** Returns the time in seconds within which a start or a wake must have ended, if the container must be ready that long after its start. */
export function bringUpSeconds(startTimeoutSeconds: number): number {
  return startTimeoutSeconds + MARGIN_SECONDS;
}

/**
 * Returns the time in seconds within which a restart must have ended. It includes the end of the running container, or the backoff of a
 * crash.
 */
export function restartSeconds(startTimeoutSeconds: number): number {
  return startTimeoutSeconds + STOP_SECONDS;
}
