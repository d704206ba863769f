import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Lets the tests of a file find a program named git, which does nothing, since a machine may have none. */
export function findSomeGit(): void {
  const { PATH } = process.env;
  const folder = mkdtempSync(join(tmpdir(), 'mooring-some-git-'));
  beforeAll(() => writeFileSync(join(folder, 'git'), '', { mode: 0o755 }));
  // The variable is put back after the file.
  beforeEach(() => void (process.env.PATH = `${folder}:${PATH}`));
  afterAll(() => rmSync(folder, { recursive: true }));
}
