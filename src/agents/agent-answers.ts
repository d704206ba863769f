import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';

import type { Position } from '../platform/event-store/event-store.ts';
import type { CommandContext } from '../platform/http/caller.ts';
import { setRevision } from '../platform/http/etag.ts';
import { decodeCursor, encodeCursor, linkNextPage, notACursor } from '../platform/http/paging.ts';
import { preferenceApplied } from '../platform/http/waiting.ts';
import { Refusal } from '../platform/refusal.ts';
import { AwaitAgent } from './agent-wait.handlers.ts';
import { statusesOf, type ListAgentsQuery, type WaitQuery } from './agent.dto.ts';
import type { AgentRow } from './agent.entity.ts';
import { StartAgent, type AgentWrite, type DeleteAgent } from './agent.handlers.ts';
import { GetAgent, ListAgents } from './agent.projection.ts';

const DEFAULT_LIMIT = 50;
const DEFAULT_WAIT_SECONDS = 60;

/** How an agent is answered over HTTP, the same on both surfaces but for the spelling, which `view` gives. */
@Injectable()
export class AgentAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** The agent as it is, at least as far as the position. */
  async show<View>(
    view: (row: AgentRow) => View,
    accountId: string,
    agentId: string,
    reply: FastifyReply,
    position: Position | null = null,
  ) {
    const row = await this.queries.execute(new GetAgent(accountId, agentId, position));
    setRevision(reply, row.revision);
    return view(row);
  }

  async list<View>(view: (row: AgentRow) => View, accountId: string, query: ListAgentsQuery, request: FastifyRequest, reply: FastifyReply) {
    const limit = query.limit ?? DEFAULT_LIMIT;
    const rows = await this.queries.execute(new ListAgents(accountId, limit, placeOf(query.cursor), query.external_id ?? null));
    const last = rows.at(-1);
    if (rows.length === limit && last) linkNextPage(request, reply, encodeCursor([last.created_at.toISOString(), last.agent_id]));
    return rows.map(view);
  }

  /** The agent after the write: at once, or, where the caller would wait so many seconds, when it has settled. */
  async change<View>(view: (row: AgentRow) => View, command: AgentWrite, wait: number | null, reply: FastifyReply) {
    const { position, wasActive } = await this.commands.execute(command);
    if (command instanceof StartAgent && !wasActive) void reply.header('x-agent-woken', 'true');
    return this.settled(view, command, position, wait, reply);
  }

  /** The agent when it has settled, then 200, or when the time is over. Without a wait: as it is at the position. */
  async settled<View>(
    view: (row: AgentRow) => View,
    { context, accountId, agentId }: { context: CommandContext; accountId: string; agentId: string },
    position: Position,
    wait: number | null,
    reply: FastifyReply,
  ) {
    if (wait === null) return this.show(view, accountId, agentId, reply, position);
    const waited = await this.queries.execute(new AwaitAgent(accountId, agentId, null, wait));
    if (waited.reached) {
      void reply.status(200);
      preferenceApplied(reply);
    }
    // What the caller is told here its next read must not take back.
    context.writtenUpTo = waited.position;
    return this.show(view, accountId, agentId, reply, waited.position);
  }

  /** Nothing (204) when the agent is gone, else the agent that is being deleted. */
  async remove<View>(view: (row: AgentRow) => View, command: DeleteAgent, reply: FastifyReply): Promise<View | undefined> {
    const { position, gone } = await this.commands.execute(command);
    if (gone) {
      void reply.status(204);
      return undefined;
    }
    void reply.status(202);
    return this.show(view, command.accountId, command.agentId, reply, position);
  }

  async wait<View>(view: (row: AgentRow) => View, accountId: string, agentId: string, query: WaitQuery, reply: FastifyReply) {
    const seconds = query.timeout ?? DEFAULT_WAIT_SECONDS;
    const { reached, status, position } = await this.queries.execute(new AwaitAgent(accountId, agentId, statusesOf(query), seconds));
    if (!reached) throw new Refusal('wait_timeout', `After ${seconds} s the agent is ${status}.`, { members: { agent_status: status } });
    return this.show(view, accountId, agentId, reply, position);
  }
}

function placeOf(cursor: string | undefined): (string | number)[] | null {
  const place = decodeCursor(cursor, 2);
  if (place === null || (place.every((part) => typeof part === 'string') && !Number.isNaN(Date.parse(String(place[0]))))) return place;
  throw notACursor();
}
