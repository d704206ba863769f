import { Module } from '@nestjs/common';

import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { ComputerDesktopsModule } from './computer-desktops.module.ts';
import { ComputersModule } from './computers.module.ts';
import { ComputersSaga } from './computers.saga.ts';
import { ComputerContainers } from './containers/computer-containers.service.ts';
import { ComputerImages } from './containers/computer-images.service.ts';
import { COMPUTER_KIND, computerKind } from './containers/computer-kind.ts';
import { ComputerRecords } from './containers/computer-records.service.ts';
import { ComputerSteps } from './containers/computer-steps.service.ts';
import { ContainerTimes } from './containers/container-times.service.ts';
import { AllComputers } from './containers/all-computers.service.ts';

/** Brings the containers of computers to what callers want of them. */
@Module({
  imports: [ComputersModule, ComputerDesktopsModule, SandboxContainersModule],
  providers: [
    ComputerContainers,
    ComputerRecords,
    ComputersSaga,
    ComputerSteps,
    ContainerTimes,
    AllComputers,
    {
      provide: COMPUTER_KIND,
      useFactory: computerKind,
      inject: [ComputerRecords, ComputerContainers, AllComputers, ComputerSteps, ComputerImages],
    },
  ],
})
export class ComputerContainersModule {}
