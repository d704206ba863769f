import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { AgentAddresses } from './agent-addresses.service.ts';
import { AgentExchanges } from './agent-exchanges.service.ts';
import { PublicTraffic } from './public-traffic.service.ts';
import { TrafficController } from './traffic.controller.ts';

@Module({
  imports: [AgentsModule],
  controllers: [TrafficController],
  providers: [AgentAddresses, AgentExchanges, PublicTraffic],
  exports: [AgentExchanges],
})
export class TrafficModule {}
