import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import type { Sources } from './imports.ts';
import { tierRules } from './tiers.ts';

const root = resolve(import.meta.dirname, '../..');
const folders = ['src', 'cli', 'test', 'bench', 'scripts'].filter((folder) => existsSync(join(root, folder)));
const sources: Sources = new Map(
  folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)))
    // The samples below look like imports of this file.
    .filter((path) => /\.[cm]?[jt]s$/.test(path) && path !== 'test/coverage/tiers.spec.ts')
    .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);

/** Trees of files that break a rule, with what is found in each. */
const bad: Record<string, [Record<string, string>, string[]][]> = {
  'a file of tests has one tier, which its name tells': [
    [{ 'src/a.int.docker.spec.ts': '' }, ['src/a.int.docker.spec.ts names int and docker']],
    [{ 'src/a.e2e.model.spec.ts': '' }, ['src/a.e2e.model.spec.ts names e2e']],
    [{ 'src/a.unit.spec.ts': '' }, ['src/a.unit.spec.ts names unit']],
    [{ 'scripts/a.spec.ts': '' }, ['scripts/a.spec.ts is run in no tier']],
    [{ 'src/a.test.ts': '' }, ['src/a.test.ts is run in no tier']],
  ],
  'a unit test reaches neither the framework nor a client of a server': [
    [
      {
        'src/a.spec.ts': "import { b } from './b/b.ts';\n",
        'src/b/b.ts': "export * from '../c.ts';\n",
        'src/c.ts': "import pg from 'pg';\n",
      },
      ['src/a.spec.ts > src/b/b.ts > src/c.ts > pg'],
    ],
    [{ 'src/a.spec.ts': "import {\n  type B,\n  c,\n} from '@nestjs/common';\n" }, ['src/a.spec.ts > @nestjs/common']],
    [{ 'test/a.spec.ts': "const { DataSource } = await import('typeorm');\n" }, ['test/a.spec.ts > typeorm']],
    [{ 'test/a.spec.ts': "import '@eventstore/db-client/generated/x.js';\n" }, ['test/a.spec.ts > @eventstore/db-client']],
  ],
  'a unit or int test reaches nothing that needs an engine, Git or the started service': [
    [
      {
        'src/a.int.spec.ts': "import { bed } from '../test/support/bed.ts';\n",
        'test/support/bed.ts': "import { GitServer } from './git-server.ts';\n",
      },
      ['src/a.int.spec.ts > test/support/bed.ts > test/support/git-server.ts'],
    ],
    [
      { 'test/a.spec.ts': "import { DockerFixture } from './support/docker-fixture.ts';\n" },
      ['test/a.spec.ts > test/support/docker-fixture.ts'],
    ],
    [{ 'test/a.int.spec.ts': 'const docker = new Dockerode();\n' }, ['test/a.int.spec.ts']],
    [
      { 'src/a.int.spec.ts': "import { b } from './b.contract.ts';\n", 'src/b.contract.ts': "execFileSync('git', ['init']);\n" },
      ['src/a.int.spec.ts > src/b.contract.ts'],
    ],
  ],
  'a file of tests imports no other one': [
    [{ 'src/a.int.spec.ts': "await import('./b.int.spec.ts');\n" }, ['src/a.int.spec.ts > src/b.int.spec.ts']],
    [{ 'test/support/a.ts': "import { b } from '../b.spec.ts';\n" }, ['test/support/a.ts > test/b.spec.ts']],
  ],
};

/** A tree that looks similar and breaks no rule. */
const good = {
  'src/a.saga.spec.ts': "import { b } from './b.ts';\nimport type { Client } from 'pg';\nimport { type Module } from '@nestjs/common';\n",
  'src/b.ts': "import fc from 'fast-check';\nexport type { DataSource } from 'typeorm';\nspawn('git', []);\n",
  'src/a.int.spec.ts': "import { c } from './c.contract.ts';\nimport pg from 'pg';\nnew Dockerode({ socketPath });\n",
  'src/a.docker.spec.ts':
    "import { DockerFixture } from '../test/support/docker-fixture.ts';\nimport { c } from './c.contract.ts';\nnew Dockerode();\n",
  'test/a.e2e.spec.ts': "import { StartedService } from './support/started-service.ts';\n",
};

describe('the tiers of the tests', () => {
  it('are looked for in all sources', () => {
    expect([...sources.keys()]).toEqual(expect.arrayContaining(['test/coverage/tidy.spec.ts', 'src/main.ts']));
  });

  describe.each(tierRules)('$name', ({ name, breaches }) => {
    it('holds everywhere', () => {
      expect(breaches(sources)).toEqual([]);
    });

    it('finds what breaks it, and nothing else', () => {
      expect(bad[name]).toBeDefined();
      for (const [files, found] of bad[name] ?? []) expect(breaches(new Map(Object.entries(files)))).toEqual(found);
      expect(breaches(new Map(Object.entries(good)))).toEqual([]);
    });
  });
});
