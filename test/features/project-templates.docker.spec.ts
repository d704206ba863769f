import { fixtureRuntime } from '../support/fixture-runtime.ts';
import { DockerFixture } from '../support/docker-fixture.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { nodeTemplate, projectTemplates, pythonTemplate } from './project-templates.contract.ts';

describe('an agent made from a template that is a project, on Docker', () => {
  let bed: DockerFixture;

  projectTemplates([nodeTemplate, pythonTemplate], async () => {
    bed = await DockerFixture.open();
    return fixtureRuntime(bed);
  });
  // Hooks run in the order in which they are written: the server of the tests is closed before the bed.
  afterAll(() => bed?.close());
});

describe('an agent made from a template that is a project, on the local runtime', () => {
  // It runs the Python of the machine, which a bare one does not have.
  projectTemplates([pythonTemplate], async () => LocalRuntimeModule.forTest());
});
