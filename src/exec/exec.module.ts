import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { AgentExecs } from './agent-execs.service.ts';
import { ExecController } from './exec.controller.ts';
import { Exec } from './exec.service.ts';

@Module({ imports: [AgentsModule], controllers: [ExecController], providers: [AgentExecs, Exec] })
export class ExecModule {}
