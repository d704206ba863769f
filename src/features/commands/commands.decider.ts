import type { Sealed } from '../../crypto/keyring.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import type { CommandEnd, CommandEvent } from './commands.events.ts';

/** The most commands that run concurrently in one agent. */
export const RUNNING_MAX = 16;
/** The number of ended commands that stay listed. */
export const ENDED_MAX = 50;
/** The number of inputs and signals whose ids are remembered, so that a repeated request does not send one again. */
export const LATEST_ACTS_MAX = 100;

export interface RunningCommand {
  id: string;
  /** The generation of the container in which it runs. */
  generation: number;
  startedAt: string;
  /** The command starts by this time, or never. */
  startsBy: string;
  keepAwakeUntil: string | null;
}

export interface EndedCommand {
  id: string;
  generation: number;
  startedAt: string;
  end: CommandEnd;
  exitCode: number | null;
  /** The bytes that it printed, and those of them that were not kept; null if unknown. */
  outputBytes: number | null;
  droppedBytes: number | null;
}

/** The commands of one agent that run, and those that have ended. */
export interface CommandsOfAgent {
  agentId: string;
  running: RunningCommand[];
  /** The latest that ended, oldest first. */
  ended: EndedCommand[];
  /** The ids of the latest inputs and signals, oldest first. */
  latestActs: string[];
}

export type AgentCommandsState = CommandsOfAgent | null;

interface Start {
  type: 'StartCommand';
  agentId: string;
  commandId: string;
  generation: number;
  command: Sealed;
  startedAt: string;
  startsBy: string;
  keepAwakeUntil: string | null;
}

interface End {
  type: 'EndCommand';
  commandId: string;
  end: CommandEnd;
  exitCode: number | null;
  outputBytes: number | null;
  droppedBytes: number | null;
}

type CommandInteraction =
  | { type: 'SendInput'; commandId: string; actId: string; bytes: number; closes: boolean }
  | { type: 'SendSignal'; commandId: string; actId: string; signal: string };

export type CommandsOrder = Start | CommandInteraction | End | { type: 'RemoveCommand'; commandId: string };

/** Returns whether the command has ended. */
export function hasEnded(command: RunningCommand | EndedCommand): command is EndedCommand {
  return 'end' in command;
}

export function commandNotFound(): ProblemError {
  return new ProblemError('not_found', 'The agent has no such command.');
}

function decide(order: CommandsOrder, state: AgentCommandsState): CommandEvent[] {
  switch (order.type) {
    case 'StartCommand':
      return start(order, state);
    case 'SendInput':
    case 'SendSignal':
      return interact(order, state);
    case 'EndCommand':
      return end(order, state);
    case 'RemoveCommand':
      return remove(order.commandId, state);
  }
}

/** Starts the command, unless one was started before under the id. */
function start(order: Start, state: AgentCommandsState): CommandEvent[] {
  const { agentId: agent_id, commandId: command_id, generation, command } = order;
  if (findCommand(state, command_id) !== null) return [];
  if ((state?.running.length ?? 0) >= RUNNING_MAX)
    throw new ProblemError('rate_limited', `${RUNNING_MAX} commands go on in this agent already. End one of them first.`, {
      retryAfterSeconds: 10,
    });
  const { startedAt: started_at, startsBy: starts_by, keepAwakeUntil: keep_awake_until } = order;
  return [{ type: 'AgentCommandStarted', data: { agent_id, command_id, generation, command, started_at, starts_by, keep_awake_until } }];
}

function interact(order: CommandInteraction, state: AgentCommandsState): CommandEvent[] {
  if (state === null || findCommand(state, order.commandId) === null) throw commandNotFound();
  if (!state.running.some(({ id }) => id === order.commandId)) throw new ProblemError('invalid_state', 'The command has ended.');
  const { commandId: command_id, actId: act_id } = order;
  if (state.latestActs.includes(act_id))
    throw new ProblemError(
      'invalid_state',
      'What this Idempotency-Key stands for was begun before, and is not repeated; its outcome is unknown.',
    );
  const ids = { agent_id: state.agentId, command_id, act_id };
  if (order.type === 'SendSignal') return [{ type: 'AgentCommandSignaled', data: { ...ids, signal: order.signal } }];
  return [{ type: 'AgentCommandInputSent', data: { ...ids, bytes: order.bytes, closes: order.closes } }];
}

function end(order: End, state: AgentCommandsState): CommandEvent[] {
  if (state === null || !state.running.some(({ id }) => id === order.commandId)) return [];
  const { commandId: command_id, exitCode: exit_code, outputBytes: output_bytes, droppedBytes: dropped_bytes } = order;
  const drops = state.ended.length < ENDED_MAX ? null : (state.ended[0]?.id ?? null);
  const data = { agent_id: state.agentId, command_id, end: order.end, exit_code, output_bytes, dropped_bytes, drops };
  return [{ type: 'AgentCommandEnded', data }];
}

function remove(commandId: string, state: AgentCommandsState): CommandEvent[] {
  if (state === null || findCommand(state, commandId) === null) throw commandNotFound();
  return [{ type: 'AgentCommandRemoved', data: { agent_id: state.agentId, command_id: commandId } }];
}

/** Returns the command with the id; null if there is none, or it is not listed any more. */
export function findCommand(state: AgentCommandsState, commandId: string): RunningCommand | EndedCommand | null {
  const isIt = ({ id }: { id: string }) => id === commandId;
  return state?.running.find(isIt) ?? state?.ended.find(isIt) ?? null;
}

function evolve(state: AgentCommandsState, event: CommandEvent): AgentCommandsState {
  const commands = state ?? { agentId: event.data.agent_id, running: [], ended: [], latestActs: [] };
  const isOther = ({ id }: { id: string }) => id !== event.data.command_id;
  switch (event.type) {
    case 'AgentCommandStarted':
      return { ...commands, running: [...commands.running, started(event.data)] };
    case 'AgentCommandInputSent':
    case 'AgentCommandSignaled':
      return { ...commands, latestActs: [...commands.latestActs, event.data.act_id].slice(-LATEST_ACTS_MAX) };
    case 'AgentCommandEnded': {
      const ended = commands.running.filter((command) => !isOther(command)).map((command) => toEndedCommand(command, event.data));
      const listed = commands.ended.filter(({ id }) => id !== event.data.drops);
      return { ...commands, running: commands.running.filter(isOther), ended: [...listed, ...ended] };
    }
    case 'AgentCommandRemoved':
      return { ...commands, running: commands.running.filter(isOther), ended: commands.ended.filter(isOther) };
    default:
      event satisfies never;
      return commands;
  }
}

function started(data: Extract<CommandEvent, { type: 'AgentCommandStarted' }>['data']): RunningCommand {
  const { command_id: id, generation, started_at: startedAt, starts_by: startsBy, keep_awake_until: keepAwakeUntil } = data;
  return { id, generation, startedAt, startsBy, keepAwakeUntil };
}

function toEndedCommand(
  { id, generation, startedAt }: RunningCommand,
  data: Extract<CommandEvent, { type: 'AgentCommandEnded' }>['data'],
): EndedCommand {
  const { exit_code: exitCode, output_bytes: outputBytes, dropped_bytes: droppedBytes } = data;
  return { id, generation, startedAt, end: data.end, exitCode, outputBytes, droppedBytes };
}

export const commandsDecider: Decider<AgentCommandsState, CommandsOrder, CommandEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'commands', version: 1, subject: (commands) => commands?.agentId ?? null },
};
