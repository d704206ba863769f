import { randomUUID } from 'node:crypto';

import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';

import { Config } from '../../src/kernel/config/config.ts';
import { LocalRuntime } from '../../src/runtime/local/local-runtime.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';

/** Opens the local runtime in the data folder of the server, and removes its containers with it. */
@Module({})
export class LocalRuntimeModule implements OnApplicationShutdown {
  constructor(@Inject(ContainerRuntime) private readonly runtime: ContainerRuntime) {}

  static forTest(): DynamicModule {
    const open = ({ dataDir }: Config) => LocalRuntime.open({ instance: randomUUID().slice(-12), dataDir });
    return {
      module: LocalRuntimeModule,
      global: true,
      providers: [{ provide: ContainerRuntime, inject: [Config], useFactory: open }],
      exports: [ContainerRuntime],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    for (const { handle } of (await this.runtime.list()).containers) await this.runtime.remove(handle);
  }
}
