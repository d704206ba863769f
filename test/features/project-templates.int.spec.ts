import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { nodeTemplate, projectTemplates } from './project-templates.contract.ts';

describe('an agent made from a template that is a project, on the local runtime', () => {
  projectTemplates([nodeTemplate], async () => LocalRuntimeModule.forTest());
});
