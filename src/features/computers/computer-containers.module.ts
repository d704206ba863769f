import { Module } from '@nestjs/common';

import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { ComputerDesktopsModule } from './computer-desktops.module.ts';
import { ComputersModule } from './computers.module.ts';
import { ComputersSaga } from './computers.saga.ts';
import { ComputerContainers } from './containers/computer-containers.service.ts';
import { ComputerKind } from './containers/computer-kind.service.ts';
import { ComputerRecords } from './containers/computer-records.service.ts';
import { ContainerTimes } from './containers/container-times.service.ts';
import { EveryComputer } from './containers/every-computer.service.ts';

/** Brings the containers of computers to what callers want of them. */
@Module({
  imports: [ComputersModule, ComputerDesktopsModule, SandboxContainersModule],
  providers: [ComputerContainers, ComputerRecords, ComputerKind, ContainerTimes, EveryComputer, ComputersSaga],
})
export class ComputerContainersModule {}
