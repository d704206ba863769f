import { type DynamicModule, Module } from '@nestjs/common';

import { Config } from './config.ts';
import { Clock } from '../clock.ts';
import { Startup } from '../startup.ts';

/** Provides the configuration, the clock, and the `Startup` to every part. */
@Module({})
export class ConfigModule {
  static forRoot(config: Config, startup = new Startup()): DynamicModule {
    return {
      module: ConfigModule,
      global: true,
      providers: [{ provide: Config, useValue: config }, { provide: Startup, useValue: startup }, Clock],
      exports: [Config, Startup, Clock],
    };
  }
}
