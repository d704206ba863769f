import { isReached } from '../../../test/support/locked-projects.ts';
import { nodeProjects } from '../../../test/support/node-projects.ts';
import { PROJECT_MS, ProjectBed } from '../../../test/support/project-bed.ts';

describe('a project for Node as people bring it', () => {
  let bed: ProjectBed;
  beforeAll(async () => {
    bed = await ProjectBed.open();
  });
  afterAll(() => bed?.close());

  it.each(Object.keys(nodeProjects))(
    'is installed, built and started with %s',
    async (name) => {
      if (!(await isReached('npm', name))) return;
      expect(await bed.outputOf(nodeProjects[name] ?? {})).toContain('runs 86400000 production');
    },
    PROJECT_MS,
  );
});
