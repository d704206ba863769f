import { Injectable } from '@nestjs/common';

import { Agents } from '../agents/services.ts';
import { type Ticket, Tickets } from '../../http/auth/tickets.ts';
import type { RequestContext } from '../../http/server/request-context.ts';
import { AgentExecs } from './agent-execs.service.ts';

/** Issues tickets with which web pages open terminals. */
@Injectable()
export class TerminalTickets {
  constructor(
    private readonly agents: Agents,
    private readonly tickets: Tickets,
    private readonly execs: AgentExecs,
  ) {}

  /** Returns a ticket for one terminal in the agent, on behalf of the caller. Throws `agent_not_found` and `rate_limited`. */
  async issue(agentId: string, { accountId, caller, context }: RequestContext): Promise<Ticket> {
    await this.agents.load(agentId, accountId);
    const ticket = await this.tickets.issue(caller, `/api/agents/${agentId}/terminal`);
    await this.execs.issueTicket({ agentId, context, expiresAt: ticket.expiresAt });
    return ticket;
  }
}
