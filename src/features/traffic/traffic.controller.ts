import { All, Controller } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';

import { AgentId } from '../agents/index.ts';
import { Public } from '../../http/auth/access.ts';
import { type RequestContext, CurrentRequest } from '../../http/server/request-context.ts';
import { RawBody } from '../../http/server/body.ts';
import { PublicTraffic } from './public-traffic.service.ts';

/** Serves the ports of public agents. They are not a part of the API and not in its document. */
@ApiExcludeController()
@Controller('a/:agentId')
export class TrafficController {
  constructor(private readonly traffic: PublicTraffic) {}

  /** Passes any request on to the agent's port, and the response back. Wakes a sleeping agent. */
  @All(['', '*'])
  @Public()
  @RawBody('untouched')
  serve(@AgentId() agentId: string, @CurrentRequest() call: RequestContext): Promise<void> {
    return this.traffic.serve(call, agentId);
  }
}
