import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { planProject } from '../../../builds/projects/plan-project.ts';
import { addFrameworkFiles } from './framework-files.ts';

describe('the files of a framework in a repository', () => {
  let folder: string;
  let repository: string;
  const template = () => ({
    source: { kind: 'dockerfile' as const, directory: join(folder, 'template'), dockerfile: 'Dockerfile', start: null },
  });
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mooring-framework-'));
    repository = join(folder, 'repository');
    await mkdir(repository);
    await mkdir(join(folder, 'template/project'), { recursive: true });
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('are those of its template, and their packages are installed too', async () => {
    await writeFile(join(repository, 'openclaw.json'), '{}');
    await writeFile(join(folder, 'template/project/serve.mjs'), 'program');
    await writeFile(join(folder, 'template/project/package.json'), '{}');
    await addFrameworkFiles(repository, 'openclaw', template());
    expect(await readFile(join(repository, '.mooring/serve.mjs'), 'utf8')).toBe('program');
    expect(await planProject(repository)).toMatchObject({
      framework: 'openclaw',
      manifests: ['.mooring/package.json'],
      install: [['npm', 'install', '--prefix', '.mooring', '--omit=dev', '--no-audit', '--no-fund']],
    });
  });

  it('are needed', async () => {
    await expect(addFrameworkFiles(repository, 'langgraph', undefined)).rejects.toThrow('no template that runs langgraph projects');
    await rm(join(folder, 'template/project'), { recursive: true });
    await expect(addFrameworkFiles(repository, 'langgraph', template())).rejects.toThrow('no template that runs langgraph projects');
  });

  it('never go where a link of the repository leads', async () => {
    await symlink(folder, join(repository, '.mooring'));
    await expect(addFrameworkFiles(repository, 'crewai', template())).rejects.toThrow('has a .mooring of its own');
  });
});
