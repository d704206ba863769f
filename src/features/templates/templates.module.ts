import { Module } from '@nestjs/common';
import { Config } from '../../kernel/config/config.ts';
import { Templates, templatesFolder } from './templates.ts';
import { TemplatesController } from './templates.controller.ts';

@Module({
  controllers: [TemplatesController],
  providers: [
    {
      provide: Templates,
      inject: [Config],
      useFactory: ({ templatesDir }: Config) => Templates.read(templatesFolder, templatesDir),
    },
  ],
  exports: [Templates],
})
export class TemplatesModule {}
