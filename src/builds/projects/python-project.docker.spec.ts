import { isReached } from '../../../test/support/locked-projects.ts';
import { pythonProjects } from '../../../test/support/python-projects.ts';
import { PROJECT_MS, ProjectBed } from '../../../test/support/project-bed.ts';

describe('a project for Python as people bring it', () => {
  let bed: ProjectBed;
  beforeAll(async () => {
    bed = await ProjectBed.open();
  });
  afterAll(() => bed?.close());

  it.each(Object.keys(pythonProjects))(
    'is installed and started with %s',
    async (name) => {
      if (!(await isReached('PyPI', name))) return;
      expect(await bed.outputOf(pythonProjects[name] ?? {})).toContain('runs 1.17.0');
    },
    PROJECT_MS,
  );
});
