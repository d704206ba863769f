import { Module } from '@nestjs/common';

import { Activity } from './activity/activity.service.ts';

/** What sandboxes of all kinds are kept by. */
@Module({
  providers: [Activity],
  exports: [Activity],
})
export class SandboxesModule {}
