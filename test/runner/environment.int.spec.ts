import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');
const jest = ['--import', './scripts/typescript.mjs', 'node_modules/jest/bin/jest.js'];

describe('a file of tests that needs an engine, where none answers', () => {
  it('fails with one sentence, which says what to do', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...jest, 'docker/containers/terminal', '--selectProjects', 'docker'], {
      cwd: root,
      env: { ...process.env, DOCKER_HOST: 'unix:///nowhere/docker.sock' },
      encoding: 'utf8',
    });
    const sentences = stderr.match(/These tests were not run, because no Docker Engine answers \(.+\)\. Start one, or run `npm test`/g);
    expect([status, sentences?.length]).toEqual([1, 1]);
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('0 passed, 1 failed');
  });
});
