import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { START } from '../platform/event-store/event-store.ts';
import type { Call } from '../platform/http/call.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import { type ListAgentsQueryDto, statusesOf, type WaitQueryDto } from './agents.dto.ts';
import type { AgentRow, ShownAgent } from './agents.table.ts';
import { StartAgent, type AgentWrite, type DeleteAgent } from './agents.commands.ts';
import { AwaitAgent, GetAgent, GetWrittenAgent, ListAgents } from './agents.queries.ts';

const DEFAULT_WAIT_SECONDS = 60;

/** Answers HTTP requests about agents with rows, which each API shows with its own names of the fields. */
@Injectable()
export class AgentAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Returns the agent from the read model. */
  async show(agentId: string, call: Call): Promise<ShownAgent> {
    const row = await this.queries.execute(new GetAgent(call.accountId, agentId));
    call.setRevision(row.revision);
    return row;
  }

  /** Returns the agent after a write or a wait from its stream, so that an appended write is visible even if the read model lags. */
  private async showWritten(agentId: string, call: Call): Promise<AgentRow> {
    const { context, accountId } = call;
    const { row, position } = await this.queries.execute(new GetWrittenAgent(accountId, agentId, context.seenUpTo));
    // The caller's next read must not be older than this answer.
    if (position > (context.writtenUpTo ?? START)) context.writtenUpTo = position;
    call.setRevision(row.revision);
    return row;
  }

  async list(query: ListAgentsQueryDto, call: Call): Promise<AgentRow[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListAgents(call.accountId, limit, place, query.external_id ?? null));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.agent_id]);
    return rows;
  }

  /** Executes the write and returns the agent: at once or, if the caller waits up to `wait` seconds, when it has settled. */
  async change(command: AgentWrite, wait: number | null, call: Call): Promise<AgentRow> {
    const { wasActive } = await this.commands.execute(command);
    if (command instanceof StartAgent && !wasActive) call.setAgentWoken();
    return this.settled(command.agentId, wait, call);
  }

  /** Answers 200 with the agent when it has settled. If the time is over first, or without a wait, returns the agent as it is. */
  async settled(agentId: string, wait: number | null, call: Call): Promise<AgentRow> {
    if (wait === null) return this.showWritten(agentId, call);
    const { reached, position } = await this.queries.execute(new AwaitAgent(call.accountId, agentId, null, wait));
    if (reached) {
      call.setStatus(200);
      call.setPreferenceApplied();
    }
    call.context.writtenUpTo = position;
    return this.showWritten(agentId, call);
  }

  /** Answers 204 without a body when the agent is gone, else 202 with the agent that is being deleted. */
  async remove(command: DeleteAgent, call: Call): Promise<AgentRow | undefined> {
    const { gone } = await this.commands.execute(command);
    call.setStatus(gone ? 204 : 202);
    return gone ? undefined : this.showWritten(command.agentId, call);
  }

  async wait(agentId: string, query: WaitQueryDto, call: Call): Promise<AgentRow> {
    const seconds = query.timeout ?? DEFAULT_WAIT_SECONDS;
    const { reached, status, position } = await this.queries.execute(new AwaitAgent(call.accountId, agentId, statusesOf(query), seconds));
    if (!reached) throw new Refusal('wait_timeout', `After ${seconds} s the agent is ${status}.`, { members: { agent_status: status } });
    call.context.writtenUpTo = position;
    return this.showWritten(agentId, call);
  }
}
