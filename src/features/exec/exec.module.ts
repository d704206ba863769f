import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { AgentExecs } from './agent-execs.service.ts';
import { ContainerTerminals } from './container-terminals.service.ts';
import { ExecController } from './exec.controller.ts';
import { Exec } from './exec.service.ts';
import { TerminalsController } from './terminals.controller.ts';
import { TerminalTickets } from './terminal-tickets.service.ts';
import { Terminals } from './terminals.service.ts';

@Module({
  imports: [AgentsModule, SandboxContainersModule],
  controllers: [ExecController, TerminalsController],
  providers: [AgentExecs, ContainerTerminals, Exec, Terminals, TerminalTickets],
  exports: [Exec],
})
export class ExecModule {}
