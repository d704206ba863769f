import { Injectable } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { FastifyReply, FastifyRequest } from 'fastify';

import { START } from '../platform/event-store/event-store.ts';
import type { CommandContext } from '../platform/context/command-context.ts';
import { setRevision } from '../platform/http/responses/etag.ts';
import { decodeCursor, encodeCursor, linkNextPage, invalidCursor } from '../platform/http/responses/paging.ts';
import { preferenceApplied } from '../platform/http/responses/prefer.ts';
import { Refusal } from '../platform/errors/refusal.ts';
import { AwaitAgent } from './agent-wait.handlers.ts';
import { statusesOf, type ListAgentsQuery, type WaitQuery } from './agent.dto.ts';
import type { AgentRow, ShownAgent } from './agent.entity.ts';
import { StartAgent, type AgentWrite, type DeleteAgent } from './agent.handlers.ts';
import { GetAgent, GetWrittenAgent, ListAgents } from './agent.projection.ts';

const DEFAULT_LIMIT = 50;
const DEFAULT_WAIT_SECONDS = 60;

/** The agent that a write or a wait concerns. */
interface Written {
  context: CommandContext;
  accountId: string;
  agentId: string;
}

/** Answers HTTP requests about agents. Both APIs answer alike, except for the spelling of the fields, which `view` gives. */
@Injectable()
export class AgentAnswers {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  /** Returns the agent from the read model. */
  async show<View>(view: (row: ShownAgent) => View, accountId: string, agentId: string, reply: FastifyReply) {
    const row = await this.queries.execute(new GetAgent(accountId, agentId));
    setRevision(reply, row.revision);
    return view(row);
  }

  /** Returns the agent after a write or a wait from its stream, so that an appended write is visible even if the read model lags. */
  private async showWritten<View>(view: (row: AgentRow) => View, { context, accountId, agentId }: Written, reply: FastifyReply) {
    const { row, position } = await this.queries.execute(new GetWrittenAgent(accountId, agentId, context.seenUpTo));
    // The caller's next read must not be older than this answer.
    if (position > (context.writtenUpTo ?? START)) context.writtenUpTo = position;
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

  /** Executes the write and returns the agent: at once or, if the caller waits up to `wait` seconds, when it has settled. */
  async change<View>(view: (row: AgentRow) => View, command: AgentWrite, wait: number | null, reply: FastifyReply) {
    const { wasActive } = await this.commands.execute(command);
    if (command instanceof StartAgent && !wasActive) void reply.header('x-agent-woken', 'true');
    return this.settled(view, command, wait, reply);
  }

  /** Answers 200 with the agent when it has settled. If the time is over first, or without a wait, returns the agent as it is. */
  async settled<View>(view: (row: AgentRow) => View, written: Written, wait: number | null, reply: FastifyReply) {
    if (wait === null) return this.showWritten(view, written, reply);
    const waited = await this.queries.execute(new AwaitAgent(written.accountId, written.agentId, null, wait));
    if (waited.reached) {
      void reply.status(200);
      preferenceApplied(reply);
    }
    written.context.writtenUpTo = waited.position;
    return this.showWritten(view, written, reply);
  }

  /** Answers 204 without a body when the agent is gone, else 202 with the agent that is being deleted. */
  async remove<View>(view: (row: AgentRow) => View, command: DeleteAgent, reply: FastifyReply): Promise<View | undefined> {
    const { gone } = await this.commands.execute(command);
    if (gone) {
      void reply.status(204);
      return undefined;
    }
    void reply.status(202);
    return this.showWritten(view, command, reply);
  }

  async wait<View>(view: (row: AgentRow) => View, asked: Written, query: WaitQuery, reply: FastifyReply) {
    const { context, accountId, agentId } = asked;
    const seconds = query.timeout ?? DEFAULT_WAIT_SECONDS;
    const { reached, status, position } = await this.queries.execute(new AwaitAgent(accountId, agentId, statusesOf(query), seconds));
    if (!reached) throw new Refusal('wait_timeout', `After ${seconds} s the agent is ${status}.`, { members: { agent_status: status } });
    context.writtenUpTo = position;
    return this.showWritten(view, asked, reply);
  }
}

function placeOf(cursor: string | undefined): (string | number)[] | null {
  const place = decodeCursor(cursor, 2);
  if (place === null || (place.every((part) => typeof part === 'string') && !Number.isNaN(Date.parse(String(place[0]))))) return place;
  throw invalidCursor();
}
