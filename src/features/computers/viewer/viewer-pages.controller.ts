import { Controller, Get, HttpCode, Param, Post, StreamableFile } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';

import { Public, RequireViewer } from '../../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../../http/server/request-context.ts';
import { desktopRefusal } from '../live/desktop-refusals.ts';
import { ViewerLinks } from './viewer-links.service.ts';
import { ViewerPages } from './viewer-pages.service.ts';
import { ViewerSockets } from './viewer-sockets.service.ts';
import { ViewerVisits } from './viewer-visits.service.ts';

interface TicketAnswer {
  ticket: string;
  expires_at: string;
  mode: string;
}

@ApiExcludeController()
@Controller('viewer')
export class ViewerPagesController {
  constructor(
    private readonly pages: ViewerPages,
    private readonly visits: ViewerVisits,
    private readonly sockets: ViewerSockets,
    private readonly links: ViewerLinks,
  ) {}

  @Get('assets/:version/*')
  @Public()
  file(@Param() params: Record<'version' | '*', string>, @CurrentRequest() call: RequestContext): StreamableFile {
    return new StreamableFile(this.pages.file(params.version, params['*'], call).bytes);
  }

  @Get(':token')
  @Public()
  page(@Param('token') token: string, @CurrentRequest() call: RequestContext): Promise<string> {
    return this.pages.page(token, call);
  }

  @Post(':token/tickets')
  @HttpCode(201)
  @Public()
  async issueTicket(@Param('token') token: string, @CurrentRequest() call: RequestContext): Promise<TicketAnswer> {
    const { ticket, mode } = await this.visits.ticketFor(token, call);
    call.setHeader('cache-control', 'no-store');
    return { ticket: ticket.ticket, expires_at: ticket.expiresAt.toISOString(), mode };
  }

  @Get(':token/socket')
  @RequireViewer()
  connect(@Param('token') token: string, @CurrentRequest() call: RequestContext): Promise<void> {
    return this.sockets.serve(call, this.links.require(token)).catch((error: unknown) => {
      throw desktopRefusal(error);
    });
  }
}
