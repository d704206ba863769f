import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';

import { Config } from '../../kernel/config/config.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { GetLastUse } from '../../sandboxes/index.ts';
import type { Agent } from './aggregate/agent-state.rules.ts';
import { AgentWaits } from './agent-waits.ts';
import { type ListAgentsQueryDto, statusesOf, type WaitQueryDto } from './agents.dto.ts';
import { readAgent, type AgentView, type AgentColumns } from './agents.table.ts';
import { StartAgent, type AgentWrite, type DeleteAgent } from './agents.commands.ts';
import { AwaitAgent, GetAgent, ListAgents } from './agents.queries.ts';
import { publicUrlOf } from './public-url.ts';

const DEFAULT_WAIT_SECONDS = 60;

/**
 * Answers HTTP requests about agents with rows, which each API shows with its own names of the fields. A write is answered with the state
 * that it has left, or that a wait has found, so that it is visible even if the read model lags.
 */
@Injectable()
export class AgentResponses {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly waits: AgentWaits,
    private readonly config: Config,
  ) {}

  /** Returns the agent from the read model. */
  async show(agentId: string, call: RequestContext): Promise<AgentView> {
    const row = await this.queries.execute(new GetAgent(call.accountId, agentId));
    call.setRevision(row.revision);
    return this.withAddress(row, call);
  }

  async list(query: ListAgentsQueryDto, call: RequestContext): Promise<AgentView[]> {
    const { limit, place } = call.page(query, 'time', 'text');
    const rows = await this.queries.execute(new ListAgents(call.accountId, limit, place, query.external_id ?? null));
    call.linkAfter(rows, limit, (last) => [last.created_at.toISOString(), last.agent_id]);
    return rows.map((row) => this.withAddress(row, call));
  }

  /** Executes the write and returns the agent: at once or, if the caller waits up to `wait` seconds, when it has settled. */
  async change(command: AgentWrite, wait: number | null, call: RequestContext): Promise<AgentView> {
    const written = await this.commands.execute(command);
    if (command instanceof StartAgent && !written.wasActive) call.setAgentWoken();
    return this.showSettled(command.agentId, written, wait, call);
  }

  /** Returns the agent as `AgentWaits.settled` does. */
  async showSettled(agentId: string, written: Loaded<Agent>, wait: number | null, call: RequestContext): Promise<AgentView> {
    return this.toView(agentId, await this.waits.settled(agentId, written, wait, call), call);
  }

  /** Responds with 204 once the agent is deleted, else with 202 and the agent that is being deleted. */
  async remove(command: DeleteAgent, call: RequestContext): Promise<AgentView | undefined> {
    const { gone, ...written } = await this.commands.execute(command);
    call.setStatus(gone ? 204 : 202);
    if (!gone) return this.showSettled(command.agentId, written, null, call);
    call.notePosition(written.position);
    return undefined;
  }

  async wait(agentId: string, query: WaitQueryDto, call: RequestContext): Promise<AgentView> {
    const seconds = query.timeout ?? DEFAULT_WAIT_SECONDS;
    const { reached, agent } = await this.queries.execute(new AwaitAgent(call.accountId, agentId, statusesOf(query), seconds));
    const { status } = agent.state;
    if (!reached)
      throw new ProblemError('wait_timeout', `After ${seconds} s the agent is ${status}.`, { members: { agent_status: status } });
    call.setState(agent);
    return this.toView(agentId, agent, call);
  }

  private async toView(agentId: string, agent: Loaded<Agent>, call: RequestContext): Promise<AgentView> {
    return this.withAddress(readAgent(agentId, agent, await this.queries.execute(new GetLastUse(agentId))), call);
  }

  private withAddress(row: AgentColumns, call: RequestContext): AgentView {
    const { baseUrl, agentDomain } = this.config;
    const isPublic = row.state.settings.public === true;
    return { ...row, public_url: isPublic ? publicUrlOf(row.agent_id, baseUrl ?? call.origin, agentDomain) : null };
  }
}
