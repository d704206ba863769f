import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiBody, ApiOkResponse } from '@nestjs/swagger';

import { RequireCaller } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { Operation } from '../../http/requests/operation.ts';
import { EVENT_STREAM, type Streamed } from '../../http/server/response-streams.ts';
import { Mcp } from './mcp.service.ts';

const message = { schema: { type: 'object' } } as const;

@Controller('api/mcp')
export class McpController {
  constructor(private readonly mcp: Mcp) {}

  /**
   * Takes messages of the Model Context Protocol (streamable HTTP, without sessions), by which models call other operations as tools. A call
   * that asks for its progress is answered with an event stream.
   */
  @Post()
  @Operation('sendMcpMessage')
  @HttpCode(200)
  @RequireCaller()
  @ApiBody(message)
  @ApiOkResponse({ content: { 'application/json': message, [EVENT_STREAM]: { schema: { type: 'string' } } } })
  send(@Body() body: unknown, @CurrentRequest() call: RequestContext): Promise<string | Streamed | undefined> {
    return this.mcp.handle(body, call);
  }
}
