import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { Projections } from '../../eventsourcing/projections/projections.ts';
import { SandboxesModule } from '../../sandboxes/sandboxes.module.ts';
import { Computers } from './aggregate/computers.service.ts';
import { ComputerResponses } from './computer-responses.service.ts';
import { GetComputerHandler, ListComputersHandler } from './computer-queries.handlers.ts';
import { ComputerVariables } from './variables/computer-variables.service.ts';
import { ComputerWakes } from './computer-wakes.service.ts';
import {
  ComputerWriter,
  ConfigureComputerHandler,
  DeleteComputerHandler,
  SleepComputerHandler,
  WakeComputerHandler,
} from './computer-writes.handlers.ts';
import { ComputersController } from './computers.controller.ts';
import { computersProjection } from './rows/computers.projection.ts';
import { CreateComputerHandler } from './create-computer.handler.ts';
import { NewComputers } from './new-computers.service.ts';
import { FollowComputerHistoryHandler, GetComputerHistoryHandler } from './history/computer-history.handlers.ts';
import { ComputerHistoryController } from './history/computer-history.controller.ts';
import { ComputerImages } from './containers/computer-images.service.ts';
import { StaleReservations } from './memory/stale-reservations.service.ts';
import { ComputerMemory } from './memory/computer-memory.service.ts';
import { MemoryAllocator } from './memory/memory-allocator.service.ts';
import { IdleComputers } from './memory/idle-computers.service.ts';
import { ComputerUsageController } from './usage/computer-usage.controller.ts';
import { GetComputerUsageHandler } from './usage/computer-usage.handlers.ts';
import { computerCountsProjection } from './usage/computer-counts.projection.ts';
import { computerIntervalsProjection } from './usage/computer-intervals.projection.ts';
import { ViewerWatch } from './watch/viewer-watch.service.ts';

@Module({
  imports: [AgentsModule, SandboxesModule],
  // The route of usage comes before that of a computer by its id.
  controllers: [ComputerUsageController, ComputersController, ComputerHistoryController],
  providers: [
    Computers,
    ComputerResponses,
    ComputerVariables,
    ComputerWakes,
    ComputerMemory,
    StaleReservations,
    ComputerImages,
    MemoryAllocator,
    IdleComputers,
    ComputerWriter,
    NewComputers,
    ViewerWatch,
    CreateComputerHandler,
    ConfigureComputerHandler,
    WakeComputerHandler,
    SleepComputerHandler,
    DeleteComputerHandler,
    GetComputerHandler,
    ListComputersHandler,
    GetComputerUsageHandler,
    GetComputerHistoryHandler,
    FollowComputerHistoryHandler,
  ],
  exports: [Computers, ComputerWakes, ComputerVariables, ComputerMemory, StaleReservations, MemoryAllocator, ComputerImages],
})
export class ComputersModule {
  constructor(projections: Projections) {
    projections.register(computersProjection);
    projections.register(computerIntervalsProjection);
    projections.register(computerCountsProjection);
  }
}
