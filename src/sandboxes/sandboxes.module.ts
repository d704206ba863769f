import { Module } from '@nestjs/common';

import { Activity } from './activity/activity.service.ts';
import { WakeGate } from './activity/wake-gate.service.ts';
import { Wakeables } from './activity/wakeables.ts';
import { GetLastUseHandler } from './last-use.handlers.ts';

/** Holds sandboxes of all kinds awake, and wakes them. */
@Module({
  providers: [Activity, GetLastUseHandler, Wakeables, WakeGate],
  exports: [Activity, Wakeables, WakeGate],
})
export class SandboxesModule {}
