import { deadlineIn, restartSeconds } from './deadlines.rules.ts';
import type { Sandbox } from './sandbox.rules.ts';

/** The number of consecutive exits after which a sandbox is not started again. */
export const CRASHES_MAX = 5;
/** The time in seconds for which a container must run before its earlier exits no longer count. */
const STEADY_AFTER_SECONDS = 600;

/** The consequence of the exit of a container, as recorded in the event. */
export interface AfterExit {
  /** The number of consecutive exits, including this one. */
  crashes: number;
  /** The generation that replaces the container and when it may start; null if it exited too often. */
  restart: { generation: number; at: string; deadline_at: string } | null;
}

/** Decides the consequence of an exit of the sandbox's container. A container must be ready within the given time after its start. */
export function afterExit({ activeSince, crashes: before, generation }: Sandbox, startTimeoutSeconds: number, now: Date): AfterExit {
  const isSteady = activeSince !== null && now.getTime() - Date.parse(activeSince) >= STEADY_AFTER_SECONDS * 1000;
  const crashes = (isSteady ? 0 : before) + 1;
  if (crashes >= CRASHES_MAX) return { crashes, restart: null };
  // The first restart is immediate; the next ones wait 2, 4 and 8 s.
  const delaySeconds = crashes === 1 ? 0 : 2 ** (crashes - 1);
  const deadline_at = deadlineIn(restartSeconds(startTimeoutSeconds), now);
  return { crashes, restart: { generation: generation + 1, at: deadlineIn(delaySeconds, now), deadline_at } };
}
