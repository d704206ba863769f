import { Module } from '@nestjs/common';

import { AgentsModule } from '../agents/agents.module.ts';
import { MessagesModule } from '../messages/messages.module.ts';
import { SandboxesModule } from '../sandboxes/sandboxes.module.ts';
import { LiveContainers } from '../sandboxes/services.ts';
import { Downloads } from './downloads.service.ts';
import { FileRecords } from './file-records.service.ts';
import { FilesController } from './files.controller.ts';
import { Files } from './files.service.ts';
import { Uploads } from './uploads.service.ts';
import { VolumeRoom } from './volume-room.service.ts';

@Module({
  imports: [AgentsModule, MessagesModule, SandboxesModule],
  controllers: [FilesController],
  providers: [Downloads, FileRecords, Files, LiveContainers, Uploads, VolumeRoom],
})
export class FilesModule {}
