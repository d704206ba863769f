import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Config } from '../../kernel/config/config.ts';
import { noteWritten } from '../../kernel/context/command-context.ts';
import type { Call } from '../../http/server/call.ts';
import { Refusal } from '../../kernel/errors/refusal.ts';
import { type ListAgentsQueryDto, statusesOf, type WaitQueryDto } from './agents.dto.ts';
import type { ShownAgent, ShownColumns } from './agents.table.ts';
import { StartAgent, type AgentWrite, type DeleteAgent } from './agents.commands.ts';
import { AwaitAgent, GetAgent, GetWrittenAgent, ListAgents } from './agents.queries.ts';
import { publicUrlOf } from './public-url.ts';

const DEFAULT_WAIT_SECONDS = 60;

/** Answers HTTP requests about agents with rows, which each API shows with its own names of the fields. */
@Injectable()
export class AgentAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly config: Config,
  ) {}

  /** Returns the agent from the read model. */
  async show(agentId: string, call: Call): Promise<ShownAgent> {
    const row = await this.queries.execute(new GetAgent(call.accountId, agentId));
    call.setRevision(row.revision);
    return this.shown(row, call);
  }

  /** Returns the agent after a write or a wait from its stream, so that an appended write is visible even if the read model lags. */
  private async showWritten(agentId: string, call: Call): Promise<ShownAgent> {
    const { context, accountId } = call;
    const { row, position } = await this.queries.execute(new GetWrittenAgent(accountId, agentId, context.seenUpTo));
    // The caller's next read must not be older than this answer.
    noteWritten(context, position);
    call.setRevision(row.revision);
    return this.shown(row, call);
  }

  async list(query: ListAgentsQueryDto, call: Call): Promise<ShownAgent[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListAgents(call.accountId, limit, place, query.external_id ?? null));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.agent_id]);
    return rows.map((row) => this.shown(row, call));
  }

  /** Executes the write and returns the agent: at once or, if the caller waits up to `wait` seconds, when it has settled. */
  async change(command: AgentWrite, wait: number | null, call: Call): Promise<ShownAgent> {
    const { wasActive } = await this.commands.execute(command);
    if (command instanceof StartAgent && !wasActive) call.setAgentWoken();
    return this.settled(command.agentId, wait, call);
  }

  /** Answers 200 with the agent when it has settled. If the time is over first, or without a wait, returns the agent as it is. */
  async settled(agentId: string, wait: number | null, call: Call): Promise<ShownAgent> {
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
  async remove(command: DeleteAgent, call: Call): Promise<ShownAgent | undefined> {
    const { gone } = await this.commands.execute(command);
    call.setStatus(gone ? 204 : 202);
    return gone ? undefined : this.showWritten(command.agentId, call);
  }

  async wait(agentId: string, query: WaitQueryDto, call: Call): Promise<ShownAgent> {
    const seconds = query.timeout ?? DEFAULT_WAIT_SECONDS;
    const { reached, status, position } = await this.queries.execute(new AwaitAgent(call.accountId, agentId, statusesOf(query), seconds));
    if (!reached) throw new Refusal('wait_timeout', `After ${seconds} s the agent is ${status}.`, { members: { agent_status: status } });
    call.context.writtenUpTo = position;
    return this.showWritten(agentId, call);
  }

  private shown(row: ShownColumns, call: Call): ShownAgent {
    const { baseUrl, agentDomain } = this.config;
    const isPublic = row.state.settings.public === true;
    return { ...row, public_url: isPublic ? publicUrlOf(row.agent_id, baseUrl ?? call.origin, agentDomain) : null };
  }
}
