import { ThreadFailed } from '../../../kernel/async/worker-thread.ts';
import { SourceReader } from './source-reader.service.ts';
import { readSource, type SourceReadResult, type SourceReadRequest } from './source-reading.ts';

const opened: SourceReader[] = [];
afterEach(() => Promise.all(opened.splice(0).map((each) => each.onApplicationShutdown())));
const { signal } = new AbortController();
const dockerfile = (text: string) => ({ text, builder: 'buildkit' as const, given: {} });
const share = (account: string) => ({ account, agent: 'a' });

function readerWith(ask: (question: SourceReadRequest) => Promise<SourceReadResult>): SourceReader {
  return new SourceReader({ ask, close: () => Promise.resolve() });
}

describe('a reader of tenants’ files', () => {
  it('reads them in a thread, and passes on results and refusals', async () => {
    const reader = SourceReader.open();
    opened.push(reader);
    const given = { TAG: '22', OTHER: 'x' };
    const asked = { ...dockerfile('ARG TAG=20\nFROM node:$TAG'), given };
    expect(await reader.needsOf(asked, share('acme'), signal)).toEqual({ bases: ['node:22'], args: { TAG: '22' } });
    const files = { names: new Set(['main.py']), texts: new Map<string, string>() };
    expect(await reader.planOf({ files, start: null }, share('acme'), signal)).toMatchObject({
      language: 'python',
      start: ['python', 'main.py'],
    });
    await expect(reader.needsOf(dockerfile('RUN x'), share('acme'), signal)).rejects.toMatchObject({
      name: 'RepositoryRefused',
      message: expect.stringContaining('before the first FROM'),
    });
    const none = { names: new Set<string>(), texts: new Map<string, string>() };
    await expect(reader.planOf({ files: none, start: null }, share('acme'), signal)).rejects.toMatchObject({
      name: 'RuntimeRefused',
      message: expect.stringContaining('was not recognized'),
    });
  });

  it('refuses files that it fails on, since another try would fail as well', async () => {
    expect(readSource({ kind: 'dockerfile', text: null as unknown as string, builder: 'buildkit', given: {} })).toMatchObject({
      kind: 'failed',
      cause: expect.stringContaining('TypeError'),
    });
    const reader = readerWith(() => Promise.resolve({ kind: 'failed', cause: 'RangeError: Maximum call stack size exceeded' }));
    await expect(reader.needsOf(dockerfile('FROM a'), share('acme'), signal)).rejects.toMatchObject({
      name: 'RepositoryRefused',
      message: 'The files that say how the image is built can’t be read.',
      cause: { message: 'RangeError: Maximum call stack size exceeded' },
    });
  });

  it.each([
    ['late', 2, 'take too long to be read'],
    ['memory', 1, 'take too much memory to be read'],
    ['ended', 1, 'can’t be read'],
  ] as const)('refuses files at which its thread is %s, after %d tries', async (reason, tries, words) => {
    let asked = 0;
    const reader = readerWith(() => {
      asked += 1;
      return Promise.reject(new ThreadFailed(reason));
    });
    await expect(reader.needsOf(dockerfile('FROM a'), share('acme'), signal)).rejects.toMatchObject({
      name: 'RepositoryRefused',
      message: expect.stringContaining(words),
    });
    expect(asked).toBe(tries);
  });

  it('keeps nobody waiting for all the files of another account', async () => {
    const order: string[] = [];
    const reader = readerWith((question) => {
      if (question.kind === 'dockerfile') order.push(question.text);
      return Promise.resolve({ kind: 'needs', needs: { bases: [], args: {} } });
    });
    const reading = (account: string, text: string) => reader.needsOf(dockerfile(text), share(account), signal);
    await Promise.all([...Array.from({ length: 20 }, (_, at) => reading('acme', `a${at}`)), reading('other', 'b')]);
    expect(order.slice(0, 3)).toEqual(['a0', 'a1', 'b']);
  });
});
