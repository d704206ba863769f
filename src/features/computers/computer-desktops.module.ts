import { Module } from '@nestjs/common';

import { ExecModule } from '../exec/exec.module.ts';
import { FilesModule } from '../files/files.module.ts';
import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { ActionsController } from './live/actions.controller.ts';
import { ComputerExecsController } from './live/computer-execs.controller.ts';
import { ComputerFilesController } from './live/computer-files.controller.ts';
import { ComputersModule } from './computers.module.ts';
import { ActionRecorder } from './live/action-recorder.service.ts';
import { ComputerActions } from './live/computer-actions.service.ts';
import { ComputerExecs } from './live/computer-execs.service.ts';
import { ComputerFiles } from './live/computer-files.service.ts';
import { ComputerScreens } from './live/computer-screens.service.ts';
import { DesktopDialler } from './live/desktop-dialler.service.ts';
import { DesktopPool } from './live/desktop-pool.service.ts';
import { DesktopTurns } from './live/desktop-turns.service.ts';
import { LiveComputers } from './live/live-computers.service.ts';
import { ViewerControl } from './live/viewer-control.service.ts';
import { ScreensController } from './live/screens.controller.ts';

/** The desktops of computers that are awake, and what callers do there: actions, pictures, commands and files. */
@Module({
  imports: [ComputersModule, ExecModule, FilesModule, SandboxContainersModule],
  controllers: [ActionsController, ScreensController, ComputerExecsController, ComputerFilesController],
  providers: [
    LiveComputers,
    DesktopDialler,
    DesktopPool,
    DesktopTurns,
    ActionRecorder,
    ComputerActions,
    ComputerScreens,
    ComputerExecs,
    ComputerFiles,
    ViewerControl,
  ],
  exports: [DesktopDialler, DesktopPool, LiveComputers, ViewerControl],
})
export class ComputerDesktopsModule {}
