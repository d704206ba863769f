import { Module } from '@nestjs/common';

import { LiveContainers } from './activity/live-containers.service.ts';
import { ContainerKinds } from './reconciliation/container-kinds.ts';
import { ContainerSteps } from './reconciliation/container-steps.service.ts';
import { Differences } from './reconciliation/differences.service.ts';
import { EngineFollower } from './reconciliation/engine-follower.service.ts';
import { EngineLimits } from './reconciliation/engine-limits.ts';
import { EngineUptime } from './reconciliation/engine-uptime.service.ts';
import { EngineView } from './reconciliation/engine-view.service.ts';
import { Reconcilers } from './reconciliation/reconciler.service.ts';
import { SandboxesModule } from './sandboxes.module.ts';
import { VolumeMeter } from './volumes/volume-meter.service.ts';
import { VolumesSaga } from './volumes/volumes.saga.ts';

/** Works on the containers of sandboxes of all kinds. Includes the module that needs no engine. */
@Module({
  imports: [SandboxesModule],
  providers: [
    ContainerKinds,
    ContainerSteps,
    Differences,
    EngineFollower,
    EngineLimits,
    EngineUptime,
    EngineView,
    LiveContainers,
    Reconcilers,
    VolumeMeter,
    VolumesSaga,
  ],
  exports: [ContainerKinds, EngineLimits, EngineUptime, EngineView, LiveContainers, Reconcilers, SandboxesModule],
})
export class SandboxContainersModule {}
