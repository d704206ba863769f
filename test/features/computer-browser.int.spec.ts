import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const wrapper = resolve(import.meta.dirname, '../../deploy/computer/desktop/chromium');
const PROXY = 'http://10.20.0.2:3128';

describe('the browser of a computer', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-browser-'));
    program('chromium', 'printf "%s\\n" "$@"');
    program('unshare', 'exit 0');
    program('id', 'echo 1000');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const program = (name: string, line: string) => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${line}\n`);
    chmodSync(join(folder, name), 0o755);
  };
  /** Returns the words with which the browser is started. */
  const started = async (variables: Record<string, string> = {}, ...words: string[]): Promise<string[]> => {
    const env = { PATH: `${resolve(wrapper, '..')}:${folder}:/usr/bin:/bin`, HOME: '/home/user', ...variables };
    return (await promisify(execFile)(wrapper, words, { env })).stdout.trimEnd().split('\n');
  };

  it('has a profile in the home, asks nothing at first, and opens what it is told', async () => {
    const words = await started({}, 'http://localhost:1/a b', '--incognito');
    expect(words).toEqual(
      expect.arrayContaining(['--user-data-dir=/home/user/.config/chromium', '--no-first-run', '--no-default-browser-check']),
    );
    expect(words.slice(-2)).toEqual(['http://localhost:1/a b', '--incognito']);
  });

  it('goes through the proxy of its container, without a name and a password in the list of processes', async () => {
    const withProxy = async (variables: Record<string, string>) => (await started(variables)).filter((word) => word.includes('proxy'));
    expect(await withProxy({})).toEqual([]);
    expect(await withProxy({ HTTP_PROXY: PROXY })).toEqual([`--proxy-server=${PROXY}`]);
    expect(await withProxy({ http_proxy: PROXY })).toEqual([`--proxy-server=${PROXY}`]);
    expect(await withProxy({ HTTP_PROXY: PROXY.replace('10.', 'me:p@ss@10.') })).toEqual([`--proxy-server=${PROXY}`]);
  });

  it('has its sandbox, but where the kernel makes no user namespaces, and under root', async () => {
    const sandbox = async () => (await started()).filter((word) => ['--no-sandbox', '--test-type'].includes(word));
    expect(await sandbox()).toEqual([]);
    program('unshare', 'exit 1');
    expect(await sandbox()).toEqual(['--no-sandbox', '--test-type']);
    program('unshare', 'exit 0');
    program('id', 'echo 0');
    expect(await sandbox()).toEqual(['--no-sandbox', '--test-type']);
  });
});
