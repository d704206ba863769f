import { type DynamicModule, Module } from '@nestjs/common';

import { Config } from './config.ts';
import { Clock } from '../clock.ts';
import { Intervals } from './intervals.ts';
import { Startup } from '../startup.ts';

/** Provides the configuration, the intervals, the clock, and the `Startup` to every part. */
@Module({})
export class ConfigModule {
  static forRoot(config: Config, startup = new Startup(), intervals = new Intervals()): DynamicModule {
    return {
      module: ConfigModule,
      global: true,
      providers: [
        { provide: Config, useValue: config },
        { provide: Startup, useValue: startup },
        { provide: Intervals, useValue: intervals },
        Clock,
      ],
      exports: [Config, Startup, Intervals, Clock],
    };
  }
}
