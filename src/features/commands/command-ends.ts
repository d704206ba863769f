import type { CommandState } from '../../runtime/agent-commands.ts';
import type { ContainerView } from '../../runtime/container.ts';
import type { RunningCommand } from './commands.decider.ts';
import type { CommandEnd } from './commands.events.ts';

/** The observed state of a command whose end is not in the log. */
export type CommandObservation =
  /** It runs. Its end is followed. */
  | { kind: 'runs' }
  /**
   * Nothing can be said at the moment: the container is frozen, or does not have the command yet. `until` is the time of the next check
   * without an event.
   */
  | { kind: 'unknown'; until: Date | null }
  | { kind: 'ended'; end: CommandEnd; exitCode: number | null; outputBytes: number | null; droppedBytes: number | null };

/** Returns the container in which the command may still run; null if it is removed or has exited. */
export function containerOf(
  { generation }: Pick<RunningCommand, 'generation'>,
  containers: readonly ContainerView[],
): ContainerView | null {
  const isIt = (view: ContainerView) =>
    view.generation === generation && view.outdated === undefined && (view.state === 'running' || view.state === 'frozen');
  return containers.find(isIt) ?? null;
}

/** Returns the observed state of the command. `states` are those of the commands in its running container. */
export function observe(
  command: RunningCommand,
  container: ContainerView | null,
  states: ReadonlyMap<string, CommandState>,
  now: Date,
): CommandObservation {
  if (container === null) return endedUnseen('ended_by_sleep');
  if (container.state === 'frozen') return { kind: 'unknown', until: null };
  const state = states.get(command.id);
  if (state === undefined) {
    const startsBy = new Date(command.startsBy);
    if (now < startsBy) return { kind: 'unknown', until: startsBy };
    const isNewRun = container.startedAt !== null && Date.parse(container.startedAt) > Date.parse(command.startedAt);
    return endedUnseen(isNewRun ? 'ended_by_sleep' : 'lost');
  }
  if (state.status === 'running') return { kind: 'runs' };
  const { status: end, exitCode, outputBytes, droppedBytes } = state;
  return { kind: 'ended', end, exitCode, outputBytes, droppedBytes };
}

/** Returns the time until which these commands keep their agent awake; null if they do not any more. */
export function awakeUntil(commands: readonly RunningCommand[], now: Date): Date | null {
  const times = commands.flatMap(({ keepAwakeUntil }) => (keepAwakeUntil === null ? [] : [Date.parse(keepAwakeUntil)]));
  const last = Math.max(...times);
  return last > now.getTime() ? new Date(last) : null;
}

function endedUnseen(end: CommandEnd): CommandObservation {
  return { kind: 'ended', end, exitCode: null, outputBytes: null, droppedBytes: null };
}
