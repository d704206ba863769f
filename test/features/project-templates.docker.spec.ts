import { Module } from '@nestjs/common';

import { ContainerRuntime } from '../../src/platform/runtime/runtime.ts';
import { DockerBed } from '../support/docker-bed.ts';
import { projectTemplates } from './project-templates.contract.ts';

@Module({})
class BedRuntime {}

describe('an agent made from a template that is a project, on Docker', () => {
  let bed: DockerBed;

  projectTemplates(async () => {
    bed = await DockerBed.open();
    const providers = [{ provide: ContainerRuntime, useValue: bed.runtime }];
    return { module: BedRuntime, global: true, providers, exports: [ContainerRuntime] };
  });
  // Hooks run in the order in which they are written: the server of the tests is closed before the bed.
  afterAll(() => bed?.close());
});
