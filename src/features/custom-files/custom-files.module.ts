import { Module } from '@nestjs/common';

import { CustomFileContents } from './custom-file-contents.service.ts';
import { CustomFilesController } from './custom-files.controller.ts';
import { CustomFiles } from './custom-files.service.ts';

@Module({
  controllers: [CustomFilesController],
  providers: [CustomFileContents, CustomFiles],
  exports: [CustomFiles],
})
export class CustomFilesModule {}
