import { type DynamicModule, Module } from '@nestjs/common';

import { Config } from './config.ts';
import { Clock } from './platform/clock.ts';

/** The configuration and the clock, for every part. */
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
