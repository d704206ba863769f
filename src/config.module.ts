import { type DynamicModule, Module } from '@nestjs/common';

import { Config } from './config.ts';
import { Clock } from './platform/clock.ts';

/** Provides the configuration and the clock to every part. */
@Module({})
export class ConfigModule {
  static forRoot(config: Config): DynamicModule {
    return {
      module: ConfigModule,
      global: true,
      providers: [{ provide: Config, useValue: config }, Clock],
      exports: [Config, Clock],
    };
  }
}
