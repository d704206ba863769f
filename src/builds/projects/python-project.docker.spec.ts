import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { isReached } from '../../../test/support/locked-projects.ts';
import { pythonProjects } from '../../../test/support/python-projects.ts';
import { listedInstall } from './pip-commands.ts';
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

describe('a list of locked packages', () => {
  // It runs the Python of the machine, which a bare one does not have.
  it('is installed without the hashes of packages in the project’s own folders, and with those of all others', () => {
    const split = listedInstall('uv', true).find((words) => words.some((word) => word.includes('is_local'))) ?? [];
    const folder = mkdtempSync(join(tmpdir(), 'mooring-split-'));
    const list = (name: string) =>
      readFileSync(join(folder, name), 'utf8')
        .split('\n')
        .filter((line) => line !== '');
    try {
      const locked = ['six==1.17.0 \\', '    --hash=sha256:aa \\', '    --hash=sha256:bb'];
      const local = [
        'one @ file:///app/one.whl \\',
        '    --hash=sha256:cc',
        'two @ file:///app/two.whl \\',
        '    --hash=sha256:dd',
        './toolbox',
      ];
      writeFileSync(join(folder, '.mooring-requirements.txt'), [...locked, ...local, ''].join('\n'));
      execFileSync(split[0] ?? '', split.slice(1), { cwd: folder });
      expect(list('.mooring-local.txt').map((line) => line.trim())).toEqual([
        'one @ file:///app/one.whl',
        'two @ file:///app/two.whl',
        './toolbox',
      ]);
      expect(list('.mooring-requirements.txt').map((line) => line.split(/\s+/))).toEqual([
        ['six==1.17.0', '--hash=sha256:aa', '--hash=sha256:bb'],
      ]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
