import { Controller, Get, HttpCode, Post, Query } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';

import { AgentId } from '../agents/index.ts';
import { RequireScope, AcceptsTicket } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { newId } from '../../kernel/ids.ts';
import { TerminalQueryDto, TerminalTicketDto } from './terminals.dto.ts';
import { TerminalTickets } from './terminal-tickets.service.ts';
import { Terminals } from './terminals.service.ts';

@Controller('api/agents/:agentId/terminal')
export class TerminalsController {
  constructor(
    private readonly terminals: Terminals,
    private readonly tickets: TerminalTickets,
  ) {}

  /**
   * Opens a shell in the agent's container over a WebSocket. Wakes a sleeping agent. Binary frames are input and output; the text frame
   * `{"type":"resize","cols":120,"rows":40}` changes the size. If the caller goes away, the shell is killed with all that it started.
   */
  @Get()
  @RequireScope('deploy')
  @AcceptsTicket()
  @ApiResponse({ status: 101, description: 'The connection is a WebSocket now.' })
  open(
    @AgentId() agentId: string,
    @Query() { cols = 80, rows = 24 }: TerminalQueryDto,
    @CurrentRequest() call: RequestContext,
  ): Promise<void> {
    return this.terminals.serve({ call, agentId, terminalId: newId(), cols, rows });
  }

  /** Issues a ticket, with which one terminal may be opened within 30 s without any other credential: `…/terminal?ticket=…`. */
  @Post('tickets')
  @HttpCode(201)
  @RequireScope('deploy')
  @ApiResponse({ status: 201, type: TerminalTicketDto })
  async issueTicket(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<TerminalTicketDto> {
    const { ticket, expiresAt } = await this.tickets.issue(agentId, call);
    call.setHeader('cache-control', 'no-store');
    return { ticket, expiresAt: expiresAt.toISOString() };
  }
}
