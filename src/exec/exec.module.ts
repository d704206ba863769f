import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { SandboxesModule } from '../sandboxes/sandboxes.module.ts';
import { LiveContainers } from '../sandboxes/services.ts';
import { AgentExecs } from './agent-execs.service.ts';
import { Containers } from './containers.service.ts';
import { ExecController } from './exec.controller.ts';
import { Exec } from './exec.service.ts';
import { TerminalsController } from './terminals.controller.ts';
import { TerminalTickets } from './terminal-tickets.service.ts';
import { Terminals } from './terminals.service.ts';

@Module({
  imports: [AgentsModule, SandboxesModule],
  controllers: [ExecController, TerminalsController],
  providers: [AgentExecs, Containers, Exec, LiveContainers, Terminals, TerminalTickets],
})
export class ExecModule {}
