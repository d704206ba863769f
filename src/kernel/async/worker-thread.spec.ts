import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { ThreadFailed, WorkerThread } from './worker-thread.ts';

const folder = mkdtempSync(join(tmpdir(), 'mooring-thread-'));
const program = join(folder, 'program.mjs');
writeFileSync(
  program,
  `import { parentPort } from 'node:worker_threads';
  let asked = 0;
  parentPort.on('message', (order) => {
    asked += 1;
    if (order === 'hang') for (;;);
    if (order === 'fill') for (const all = []; ; ) all.push(new Array(1000).fill(all.length));
    if (order === 'throw') throw new Error('the program failed');
    if (order === 'leave') process.exit(0);
    parentPort.postMessage({ order, asked, secret: process.env.PATH ?? null });
  });
  parentPort.postMessage('ready');`,
);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const threads: WorkerThread<string, unknown>[] = [];
function thread(answerMs = 60_000, path = program): WorkerThread<string, unknown> {
  const made = new WorkerThread<string, unknown>(pathToFileURL(path), { responseMs: answerMs, heapMb: 16 });
  threads.push(made);
  return made;
}
afterEach(() => Promise.all(threads.splice(0).map((each) => each.close())));

describe('a thread with bounds', () => {
  it('is reused for further requests, and has none of the service’s variables', async () => {
    const kept = thread();
    expect(await kept.ask('a')).toEqual({ order: 'a', asked: 1, secret: null });
    expect(await kept.ask('b')).toEqual({ order: 'b', asked: 2, secret: null });
  });

  it.each([
    ['late', 'hang', 300],
    ['memory', 'fill', 60_000],
    ['ended', 'throw', 60_000],
    ['ended', 'leave', 60_000],
  ] as const)('that is %s ends alone, and the next request starts a new one', async (reason, order, answerMs) => {
    const ending = thread(answerMs);
    await expect(ending.ask(order)).rejects.toMatchObject({ name: 'ThreadFailed', reason });
    const answer = (): Promise<unknown> =>
      ending.ask('a').catch((error: unknown): Promise<unknown> => (error instanceof ThreadFailed ? answer() : Promise.reject(error)));
    expect(await answer()).toMatchObject({ asked: 1 });
  });

  it('whose program can’t be loaded fails with an error that blames no request', async () => {
    const broken = thread(60_000, join(folder, 'no-such.mjs'));
    for (let count = 0; count < 2; count += 1) await expect(broken.ask('a')).rejects.toThrow('the program of a thread could not be loaded');
  });
});
