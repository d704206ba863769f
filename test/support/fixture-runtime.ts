import { Module, type DynamicModule, type ValueProvider } from '@nestjs/common';

import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { DockerFixture } from './docker-fixture.ts';

@Module({})
class FixtureRuntime {}

/** Provides the bed's runtime to a server, with further providers of the test. */
export function fixtureRuntime(bed: DockerFixture, ...others: ValueProvider[]): DynamicModule {
  const providers = [{ provide: ContainerRuntime, useValue: bed.runtime }, ...others];
  return { module: FixtureRuntime, global: true, providers, exports: providers.map(({ provide }) => provide) };
}
