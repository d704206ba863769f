import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { templateDockerfile } from './template-dockerfile.ts';

describe('a template with a Dockerfile', () => {
  let directory: string;
  beforeEach(() => (directory = mkdtempSync(join(tmpdir(), 'mooring-template-'))));
  afterEach(() => rmSync(directory, { recursive: true }));

  it('may be built on the images that it names, by every account', async () => {
    writeFileSync(join(directory, 'Dockerfile'), 'ARG BASE=tool:1\nFROM node:22 AS a\nFROM ${BASE}\nCOPY --from=a /x /x\n');
    const source = await templateDockerfile({ kind: 'dockerfile', directory, dockerfile: 'Dockerfile', start: null }, 'acme', 'buildkit');
    expect(source).toMatchObject({ kind: 'dockerfile', directory, dockerfile: 'Dockerfile', accountId: 'acme' });
    expect(source.bases?.map(({ reference }) => reference)).toEqual(['node:22', 'tool:1']);
    for (const base of source.bases ?? []) expect(await base.mayUse('sha256:anything')).toBe(true);
  });

  it('is passed unchanged to the engine’s own builder', async () => {
    const folder = { kind: 'dockerfile' as const, directory, dockerfile: 'Dockerfile', start: null };
    expect(await templateDockerfile(folder, 'acme', 'engine')).toEqual({ ...folder, accountId: 'acme' });
  });
});
