import { Module, type DynamicModule } from '@nestjs/common';
import type Dockerode from 'dockerode';

import { RESOLVE_HOST } from '../../src/features/agents/services.ts';
import type { ResolveHost } from '../../src/kernel/network/public-addresses.ts';
import { DockerRuntime, type DockerRuntimeOptions } from '../../src/runtime/docker/docker-runtime.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import { testContainerKey } from './container-key.ts';
import type { TestServer } from './http-server.ts';

@Module({})
class TestRuntime {}

/** Provides the runtime on that engine, and where the names of registries lead. */
export function runtimeOn(
  docker: Dockerode,
  instance: string,
  resolve: ResolveHost,
  options: Partial<DockerRuntimeOptions> = {},
): DynamicModule {
  const containerKey = testContainerKey(instance);
  const settings = { helperImage: null, ociRuntime: null, egress: 'all', addresses: 'container' } as const;
  const runtime = () => new DockerRuntime({ instance, containerKey, docker, ...settings, ...options });
  return {
    module: TestRuntime,
    global: true,
    providers: [
      { provide: ContainerRuntime, useFactory: runtime },
      { provide: RESOLVE_HOST, useValue: resolve },
    ],
    exports: [ContainerRuntime, RESOLVE_HOST],
  };
}

/** Closes the server, and then its runtime. */
export async function closeServer(started: TestServer | undefined): Promise<void> {
  await started?.close();
  await started?.app.get(ContainerRuntime, { strict: false }).close();
}
