import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

import { untilTrue } from '../../../test/support/until.ts';
import { treeOf } from './process-trees.ts';

let program: ChildProcess;

/** Starts a child, and a grandchild in a session of its own. */
beforeAll(async () => {
  const script = 'sleep 300 & sh -c "setsid sleep 300 & echo ready; wait" & wait';
  program = spawn('sh', ['-c', script], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  await once(program.stdout as NodeJS.ReadableStream, 'data');
});
afterAll(() => {
  for (const { pid } of treeOf(program.pid as number)) process.kill(pid, 'SIGKILL');
});

describe('the tree of a process', () => {
  it.each([
    ['tells the children of each', true],
    ['does not', false],
  ])('contains all its descendants, in any session, if the kernel %s', async (_, tellsChildren) => {
    const names = () => treeOf(program.pid as number, tellsChildren).map(({ pid }) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim());
    await untilTrue(() => names().filter((name) => name === 'sleep').length === 2);
    expect(names().toSorted()).toEqual(['sh', 'sh', 'sleep', 'sleep']);
    expect(names()[0]).toBe('sh');
  });

  it('is empty once the process has ended', async () => {
    const ended = spawn('true');
    await once(ended, 'exit');
    expect(treeOf(ended.pid as number)).toEqual([]);
  });
});
