import { Module } from '@nestjs/common';

import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { EventsController } from './events/events.controller.ts';
import { BrowseEventsHandler } from './events/events.handlers.ts';
import { ProjectionsController } from './projections/projections.controller.ts';
import { KeysController } from './keys/keys.controller.ts';
import { RotateMasterKeyHandler, ShowMasterKeyHandler } from './keys/keys.handlers.ts';
import { KeysSaga } from './keys/keys.saga.ts';
import {
  CancelRebuildHandler,
  ListProjectionsHandler,
  RebuildProjectionHandler,
  VerifyProjectionHandler,
} from './projections/projections.handlers.ts';
import { RuntimeController } from './runtime/runtime.controller.ts';
import { RuntimeDrift } from './runtime/runtime-drift.service.ts';
import { WorkController } from './work/work.controller.ts';
import { SagaWork } from './work/saga-work.service.ts';

/** Shows operators the internals, which are read models, the log, the engine and the sagas' work, and rotates the master key. */
@Module({
  imports: [SandboxContainersModule],
  controllers: [ProjectionsController, EventsController, RuntimeController, WorkController, KeysController],
  providers: [
    BrowseEventsHandler,
    CancelRebuildHandler,
    ListProjectionsHandler,
    RebuildProjectionHandler,
    KeysSaga,
    RotateMasterKeyHandler,
    RuntimeDrift,
    ShowMasterKeyHandler,
    VerifyProjectionHandler,
    SagaWork,
  ],
})
export class AdminModule {}
