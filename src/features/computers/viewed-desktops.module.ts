import { Module } from '@nestjs/common';

import { SandboxesModule } from '../../sandboxes/sandboxes.module.ts';
import { ComputerDesktopsModule } from './computer-desktops.module.ts';
import { ComputersModule } from './computers.module.ts';
import { ViewerControl } from './live/viewer-control.service.ts';
import { LiveDesktops } from './viewer/live-desktops.service.ts';
import { ViewedDesktops } from './viewer/viewed-desktops.ts';
import { ViewerRecords } from './viewer/viewer-records.service.ts';

/** The desktops that people see: those of computers in their containers. Whoever acts on them learns who controls them alone. */
@Module({
  imports: [ComputersModule, ComputerDesktopsModule, SandboxesModule],
  providers: [ViewerRecords, { provide: ViewedDesktops, useClass: LiveDesktops }],
  exports: [ViewedDesktops],
})
export class ViewedDesktopsModule {
  constructor(control: ViewerControl, records: ViewerRecords) {
    control.register(records);
  }
}
