import type { CommandState } from '../../runtime/agent-commands.ts';
import type { ContainerView } from '../../runtime/container.ts';
import type { RunningCommand } from './commands.decider.ts';
import type { CommandEnd } from './commands.events.ts';

/** The outcome of a look at a command that runs as far as the log knows. */
export type Seen =
  /** It runs, so its end is waited for. */
  | { kind: 'runs' }
  /** Nothing can be known now: the container is frozen, or does not have the command yet. `until` is when to look again without a signal. */
  | { kind: 'unknown'; until: Date | null }
  | { kind: 'ended'; end: CommandEnd; exitCode: number | null; outputBytes: number | null; droppedBytes: number | null };

/** Returns the container in which the command may run still; null if that is gone or has ended. */
export function containerOf(
  { generation }: Pick<RunningCommand, 'generation'>,
  containers: readonly ContainerView[],
): ContainerView | null {
  const isIt = (view: ContainerView) =>
    view.generation === generation && view.outdated === undefined && (view.state === 'running' || view.state === 'frozen');
  return containers.find(isIt) ?? null;
}

/** Returns what a look shows of the command. `states` are those of the commands in its running container. */
export function seen(command: RunningCommand, container: ContainerView | null, states: ReadonlyMap<string, CommandState>, now: Date): Seen {
  if (container === null) return lost('ended_by_sleep');
  if (container.state === 'frozen') return { kind: 'unknown', until: null };
  const state = states.get(command.id);
  if (state === undefined) {
    const startsBy = new Date(command.startsBy);
    if (now < startsBy) return { kind: 'unknown', until: startsBy };
    const isNewRun = container.startedAt !== null && Date.parse(container.startedAt) > Date.parse(command.startedAt);
    return lost(isNewRun ? 'ended_by_sleep' : 'lost');
  }
  if (state.status === 'running') return { kind: 'runs' };
  const { status: end, exitCode, outputBytes, droppedBytes } = state;
  return { kind: 'ended', end, exitCode, outputBytes, droppedBytes };
}

/** Returns the time until which these commands hold their agent awake; null if they don't any more. */
export function keptUntil(commands: readonly RunningCommand[], now: Date): Date | null {
  const times = commands.flatMap(({ keepAwakeUntil }) => (keepAwakeUntil === null ? [] : [Date.parse(keepAwakeUntil)]));
  const last = Math.max(...times);
  return last > now.getTime() ? new Date(last) : null;
}

function lost(end: CommandEnd): Seen {
  return { kind: 'ended', end, exitCode: null, outputBytes: null, droppedBytes: null };
}
