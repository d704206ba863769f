import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { AgentAddresses } from './agent-addresses.service.ts';
import { PublicTraffic } from './public-traffic.service.ts';
import { TrafficController } from './traffic.controller.ts';

@Module({
  imports: [AgentsModule],
  controllers: [TrafficController],
  providers: [AgentAddresses, PublicTraffic],
})
export class TrafficModule {}
