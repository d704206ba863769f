import { Module } from '@nestjs/common';

import { Activity } from './activity/activity.service.ts';
import { WakeGate } from './activity/wake-gate.service.ts';
import { Wakeables } from './activity/wakeables.ts';

/** What sandboxes of all kinds are kept by. */
@Module({
  providers: [Activity, Wakeables, WakeGate],
  exports: [Activity, Wakeables, WakeGate],
})
export class SandboxesModule {}
