import { Injectable } from '@nestjs/common';

import { Agents } from '../agents/services.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { Keyring, type Sealed } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { Position } from '../../eventsourcing/event-store/event-store.ts';
import { EventWaits } from '../../eventsourcing/log/event-waits.ts';
import {
  type AgentCommandsState,
  commandNotFound,
  commandsDecider,
  type CommandsOrder,
  type EndedCommand,
  findCommand,
  hasEnded,
  type RunningCommand,
} from './commands.decider.ts';

/** The caller's texts that are recorded of a command. */
export interface CommandTexts {
  command: string | string[];
  cwd: string | null;
  name: string | null;
}

/** Records the long-running commands of agents, and loads their states. */
@Injectable()
export class CommandRecords {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly agents: Agents,
    private readonly keyring: Keyring,
    private readonly waits: EventWaits,
  ) {}

  /** Returns the newest state of the agent's commands. */
  async load(agentId: string, upTo?: Position): Promise<AgentCommandsState> {
    return (await this.aggregates.load(streamOf(agentId), commandsDecider, upTo)).state;
  }

  /** Returns the command of the account's agent. Throws `agent_not_found` and `not_found`. */
  async find(agentId: string, accountId: string, commandId: string): Promise<RunningCommand | EndedCommand> {
    await this.agents.load(agentId, accountId);
    const command = findCommand(await this.load(agentId), commandId);
    if (command === null) throw commandNotFound();
    return command;
  }

  /** Executes the command on the agent's commands and returns the state after it. Throws the refusals of the decider. */
  async execute(agentId: string, order: CommandsOrder, context: CommandContext): Promise<AgentCommandsState> {
    return (await this.aggregates.execute(streamOf(agentId), commandsDecider, order, context)).state;
  }

  /** Waits until the end or the removal of the command is recorded. Returns false if that takes longer than the timeout. */
  async waitForEnd(agentId: string, commandId: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const probe = async () => {
      const command = findCommand(await this.load(agentId), commandId);
      return command === null || hasEnded(command) ? true : undefined;
    };
    return (await this.waits.until(streamOf(agentId), probe, { timeoutMs, signal })) ?? false;
  }

  seal(agentId: string, commandId: string, texts: CommandTexts): Promise<Sealed> {
    return this.keyring.seal(agentId, placeOf(commandId), JSON.stringify(texts));
  }

  /** Returns the decrypted texts; null if the agent is deleted. */
  async open(agentId: string, commandId: string, sealed: Sealed): Promise<CommandTexts | null> {
    const text = await this.keyring.open(agentId, placeOf(commandId), sealed);
    return text === null ? null : (JSON.parse(text) as CommandTexts);
  }
}

function streamOf(agentId: string): string {
  return `commands-${agentId}`;
}

function placeOf(commandId: string): string {
  return `command ${commandId} texts`;
}
