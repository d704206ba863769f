import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { MessagesModule } from '../messages/messages.module.ts';
import { SandboxContainersModule } from '../../sandboxes/sandbox-containers.module.ts';
import { Downloads } from './downloads.service.ts';
import { FileRecords } from './file-records.service.ts';
import { FilesController } from './files.controller.ts';
import { Files } from './files.service.ts';
import { Uploads } from './uploads.service.ts';
import { VolumeQuota } from './volume-quota.service.ts';

@Module({
  imports: [AgentsModule, MessagesModule, SandboxContainersModule],
  controllers: [FilesController],
  providers: [Downloads, FileRecords, Files, Uploads, VolumeQuota],
  exports: [Downloads, Files, Uploads],
})
export class FilesModule {}
