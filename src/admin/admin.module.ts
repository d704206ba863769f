import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { EventsController } from './events.controller.ts';
import { BrowseEventsHandler } from './events.handlers.ts';
import { ProjectionsController } from './projections.controller.ts';
import { CancelRebuildHandler, ListProjectionsHandler, RebuildProjectionHandler, VerifyProjectionHandler } from './projections.handlers.ts';
import { RuntimeController } from './runtime.controller.ts';
import { RuntimeDrift } from './runtime-drift.service.ts';
import { WorkController } from './work.controller.ts';
import { SagaWork } from './saga-work.service.ts';

/** Shows operators the internals: read models, the log, the engine, the sagas' work. */
@Module({
  imports: [AgentsModule],
  controllers: [ProjectionsController, EventsController, RuntimeController, WorkController],
  providers: [
    BrowseEventsHandler,
    CancelRebuildHandler,
    ListProjectionsHandler,
    RebuildProjectionHandler,
    RuntimeDrift,
    VerifyProjectionHandler,
    SagaWork,
  ],
})
export class AdminModule {}
