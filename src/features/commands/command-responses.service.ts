import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import { Agents } from '../agents/services.ts';
import { sharesOf } from '../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../kernel/limits/fair-limiter.ts';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import type { CommandState } from '../../runtime/agent-commands.ts';
import { ContainerRuntime } from '../../runtime/runtime.ts';
import { PageBytes } from '../../kernel/limits/page-bytes.ts';
import { LiveContainers } from '../../sandboxes/services.ts';
import { CommandRecords } from './command-records.service.ts';
import { type CommandDto, type OutputBytes, toCommandDto } from './commands.dto.ts';
import { GetCommand, ListCommands } from './commands.queries.ts';
import type { CommandRow } from './commands.table.ts';

/** The longest wait for the container to report how much its commands have printed, in ms. */
const COUNT_TIMEOUT_MS = 2_000;
/** The number of containers that one process asks at once; an account may have a quarter of them. */
const COUNTS = sharesOf(64);

export interface CommandPage {
  items: CommandDto[];
  /** The `started_at` and id of the last item if more follow; null if none do. */
  next: readonly [string, string] | null;
}

/** Responds with commands. It wakes no agent. */
@Injectable()
export class CommandResponses {
  private readonly slots = new FairLimiter(COUNTS);

  constructor(
    private readonly queries: QueryBus,
    private readonly records: CommandRecords,
    private readonly agents: Agents,
    private readonly containers: LiveContainers,
    private readonly runtime: ContainerRuntime,
  ) {}

  /** Returns the command. Throws `agent_not_found` and `not_found`. */
  async show(agentId: string, accountId: string, commandId: string): Promise<CommandDto> {
    const row = await this.queries.execute(new GetCommand(accountId, agentId, commandId));
    return this.toDto(row, await this.statesOf([row], accountId));
  }

  /** Returns a page of the agent's commands, the latest first. Throws `agent_not_found`. */
  async list(agentId: string, accountId: string, limit: number, after: readonly [string, string] | null): Promise<CommandPage> {
    const rows = await this.queries.execute(new ListCommands(accountId, agentId, limit, after));
    const states = await this.statesOf(rows, accountId);
    const bytes = new PageBytes();
    const items: CommandDto[] = [];
    for (const row of rows) {
      const item = await this.toDto(row, states);
      if (!bytes.fits(item)) break;
      items.push(item);
    }
    const last = rows[items.length - 1];
    const isWhole = items.length === rows.length && rows.length < limit;
    return { items, next: isWhole || last === undefined ? null : [last.started_at.toISOString(), last.command_id] };
  }

  private async toDto(row: CommandRow, states: ReadonlyMap<string, CommandState>): Promise<CommandDto> {
    const texts = await this.records.open(row.agent_id, row.command_id, row.command);
    return toCommandDto(row, texts, bytesOf(row, states));
  }

  /** Returns the states of the running commands among these; none if the agent sleeps or does not answer. */
  private async statesOf(rows: readonly CommandRow[], accountId: string): Promise<ReadonlyMap<string, CommandState>> {
    const running = rows.find(({ status }) => status === 'running');
    if (running === undefined) return new Map();
    const { agent_id: agentId } = running;
    const signal = timeoutSignal(COUNT_TIMEOUT_MS);
    try {
      const { status, generation } = await this.agents.load(agentId, accountId);
      if (status !== 'active') return new Map();
      return await this.slots.run({ account: accountId, agent: agentId }, signal, async () =>
        this.runtime.commands.states(await this.containers.running(agentId, generation), signal),
      );
    } catch {
      // The response does not depend on the byte counts, so they are left out if the container does not answer.
      return new Map();
    }
  }
}

function bytesOf(row: CommandRow, states: ReadonlyMap<string, CommandState>): OutputBytes {
  if (row.status !== 'running') return { outputBytes: parseNumber(row.output_bytes), droppedBytes: parseNumber(row.dropped_bytes) };
  const { outputBytes = null, droppedBytes = null } = states.get(row.command_id) ?? {};
  return { outputBytes, droppedBytes };
}

function parseNumber(text: string | null): number | null {
  return text === null ? null : Number(text);
}
