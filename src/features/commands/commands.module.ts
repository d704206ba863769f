import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { CommandResponses } from './command-responses.service.ts';
import { CommandFollowers } from './command-followers.service.ts';
import { CommandInspector } from './command-inspector.service.ts';
import { CommandOutputs } from './command-outputs.service.ts';
import { CommandRecords } from './command-records.service.ts';
import { CommandRuns } from './command-runs.service.ts';
import { CommandsController } from './commands.controller.ts';
import { commandsProjection, GetCommandHandler, ListAgentsWithCommandsHandler, ListCommandsHandler } from './commands.projection.ts';
import { CommandsSaga } from './commands.saga.ts';

@Module({
  imports: [AgentsModule, SandboxContainersModule],
  controllers: [CommandsController],
  providers: [
    CommandResponses,
    CommandFollowers,
    CommandInspector,
    CommandOutputs,
    CommandRecords,
    CommandRuns,
    CommandsSaga,
    GetCommandHandler,
    ListAgentsWithCommandsHandler,
    ListCommandsHandler,
  ],
})
export class CommandsModule {
  constructor(projections: Projections) {
    projections.register(commandsProjection);
  }
}
