import { Module } from '@nestjs/common';
import { Templates, templatesFolder } from './templates.ts';
import { TemplatesController } from './templates.controller.ts';

@Module({
  controllers: [TemplatesController],
  providers: [{ provide: Templates, useFactory: () => Templates.read(templatesFolder) }],
  exports: [Templates],
})
export class TemplatesModule {}
