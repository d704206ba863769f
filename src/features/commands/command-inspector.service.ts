import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Agents } from '../agents/services.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { Clock } from '../../kernel/clock.ts';
import type { CommandState } from '../../runtime/agent-commands.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import type { ContainerHandle, ContainerView, ListedContainer } from '../../runtime/container.ts';
import { RuntimeUnavailable } from '../../runtime/runtime.errors.ts';
import { containerOf, observe, type CommandObservation } from './command-ends.ts';
import type { RunningCommand } from './commands.decider.ts';
import { type AgentWithCommands, ListAgentsWithCommands } from './commands.queries.ts';

/** The timeout of one call to a container, in ms. */
const CALL_TIMEOUT_MS = 10_000;

const NONE: ReadonlyMap<string, CommandState> = new Map();

export interface CommandsInspection {
  /** The account of the agent; null if there is no such agent. */
  account: string | null;
  now: Date;
  observations: ReadonlyMap<RunningCommand, CommandObservation>;
  /** The running container and all commands that it knows; null if none of these commands is in a running container. */
  running: { handle: ContainerHandle; commandIds: readonly string[] } | null;
}

/** Inspects commands in the containers of agents. It wakes none. */
@Injectable()
export class CommandInspector {
  constructor(
    private readonly agents: Agents,
    private readonly runtime: ContainerRuntime,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  /** Inspects the agent's commands whose end is not in the log. Throws what the runtime throws. */
  async inspect(agentId: string, commands: readonly RunningCommand[]): Promise<CommandsInspection> {
    const { state: agent } = await this.agents.find(agentId);
    const { containers } = await this.runtime.inspect(agentId, agent?.generation);
    const container = (command: RunningCommand) => containerOf(command, containers);
    const running = commands.map(container).find((view): view is ContainerView => view?.state === 'running') ?? null;
    const states = running === null ? NONE : await this.runtime.commands.states(running.handle, timeoutSignal(CALL_TIMEOUT_MS));
    const now = this.clock.now();
    return {
      account: agent?.accountId ?? null,
      now,
      observations: new Map(commands.map((command) => [command, observe(command, container(command), states, now)])),
      running: running === null ? null : { handle: running.handle, commandIds: [...states.keys()] },
    };
  }

  /** Kills the command and its descendants if it runs, and deletes its output. */
  remove(handle: ContainerHandle, commandId: string): Promise<void> {
    return this.runtime.commands.remove(handle, commandId, timeoutSignal(CALL_TIMEOUT_MS));
  }

  /**
   * Returns the agents in which commands run according to the read model, except those whose containers are frozen, where nothing
   * happens. Returns none if the engine is unavailable; its events report when it is back.
   */
  async thatMayChange(maxAgeMs: number): Promise<AgentWithCommands[]> {
    const agents = await this.queries.execute(new ListAgentsWithCommands());
    if (agents.length === 0) return [];
    const frozen = new Map<string, ListedContainer>();
    try {
      for (const each of (await this.runtime.listCached(maxAgeMs)).containers) if (each.state === 'frozen') frozen.set(each.agentId, each);
    } catch (error) {
      if (error instanceof RuntimeUnavailable) return [];
      throw error;
    }
    return agents.filter(({ agentId, generation }) => frozen.get(agentId)?.generation !== generation);
  }
}
