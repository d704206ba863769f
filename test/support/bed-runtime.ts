import { Module, type DynamicModule, type ValueProvider } from '@nestjs/common';

import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { DockerBed } from './docker-bed.ts';

@Module({})
class BedRuntime {}

/** Provides the bed's runtime to a server, with further providers of the test. */
export function bedRuntime(bed: DockerBed, ...others: ValueProvider[]): DynamicModule {
  const providers = [{ provide: ContainerRuntime, useValue: bed.runtime }, ...others];
  return { module: BedRuntime, global: true, providers, exports: providers.map(({ provide }) => provide) };
}
