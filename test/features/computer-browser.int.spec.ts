import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

  it('has a profile in the home, shows no first-run questions, and opens the given page', async () => {
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

  it('has its sandbox, but where the desktop found at its start that the kernel makes none, of which it warns', async () => {
    const words = async () => (await started({ XDG_RUNTIME_DIR: folder })).filter((word) => /sandbox|test-type/.test(word));
    const found = (what: string) => writeFileSync(join(folder, 'browser-sandbox'), `${what}\n`);
    expect(await words()).toEqual([]);
    found('kernel');
    expect(await words()).toEqual([]);
    found('none');
    // Together with --test-type it would not warn.
    expect(await words()).toEqual(['--no-sandbox']);
  });

  it.each([[null], ['kernel'], ['']])('does not start without its sandbox later, and says why in a window (%j was found)', async (what) => {
    program('unshare', 'exit 1');
    program('xterm', `printf '%s\\n' "$@" >'${folder}/shown'`);
    if (what !== null) writeFileSync(join(folder, 'browser-sandbox'), what);
    const refused = { code: 1, stdout: '', stderr: expect.stringContaining('used up the namespaces') };
    await expect(started({ XDG_RUNTIME_DIR: folder })).rejects.toMatchObject(refused);
    expect(readFileSync(join(folder, 'shown'), 'utf8')).toContain('The browser does not start');
  });
});
