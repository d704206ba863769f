import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { type RuntimeFixture } from './runtime.fixture.contract.ts';
import { inAgent, options, soon, textOf } from './runtime.files.contract.ts';
import { FileRefused, type FileRefusal } from '../../src/runtime/files.ts';
import type { ContainerView } from '../../src/runtime/container.ts';

const SECRET = 'a secret variable of the agent';
const AT_ONCE = 6;

type Act = 'list' | 'read' | 'write' | 'mkdir' | 'moveFrom' | 'moveTo' | 'remove';

/**
 * Creates every kind of entry in the volume that leads somewhere else. `outside` is a folder that the agent sees, but outside its volume.
 */
const traps = `
const [outside] = process.argv.slice(1);
const links = {
  abs: outside, root: '/', etc: '/etc', rel: '../../../../../../../../..' + outside, chain: 'chain2', chain2: 'a/../chain3', chain3: outside,
  loop: 'loop2', loop2: 'loop', self: 'self/x', secret: outside + '/secret', dangling: outside + '/planted', procroot: '/proc/self/root' + outside,
  cwd: '/proc/self/cwd', init: '/proc/1/root', environ: '/proc/1/environ', zero: '/dev/zero', up: '..', inner: 'a/b', long: './'.repeat(2000) + 'a',
};
for (const [name, to] of Object.entries(links)) fs.symlinkSync(to, name);
fs.mkdirSync('a/b', { recursive: true });
fs.writeFileSync('a/file', 'inside');
try { fs.linkSync(outside + '/secret', 'hard'); } catch { fs.writeFileSync('hard', 'secret of the outside'); }
require('child_process').execFileSync(process.argv[2] === 'docker' ? '/.mooring/busybox' : 'mkfifo', [...(process.argv[2] === 'docker' ? ['mkfifo'] : []), 'fifo']);
const server = require('net').createServer().listen(process.cwd().length > 80 ? '/proc/self/cwd/socket' : 'socket', () => process.exit(0));
`;

// If one of these succeeds, it affects the machine that runs the tests, so only the tests' own files are moved or removed.
const outOfVolume: readonly [Act, string][] = [
  ['write', '../planted'],
  ['write', '../../etc/planted'],
  ['write', '/etc/planted'],
  ['write', '/planted'],
  ['write', '//tmp//planted'],
  ['write', '/data/../planted'],
  ['write', '/data2/planted'],
  ['write', 'a/../../planted'],
  ['write', 'abs/planted'],
  ['write', 'rel/planted'],
  ['write', 'chain/planted'],
  ['write', 'root/tmp/planted'],
  ['write', 'procroot/planted'],
  ['write', 'init/tmp/planted'],
  ['write', 'cwd/planted'],
  ['write', 'up/planted'],
  ['write', 'secret'],
  ['write', 'dangling'],
  ['write', 'zero'],
  ['write', '/proc/self/cwd/planted'],
  ['list', '..'],
  ['list', '/'],
  ['list', '/etc'],
  ['list', 'abs'],
  ['list', 'root'],
  ['list', 'etc'],
  ['list', 'chain'],
  ['list', 'up'],
  ['list', 'inner/../../..'],
  ['mkdir', '../planted'],
  ['mkdir', 'abs/planted'],
  ['mkdir', 'abs/planted/deeper'],
  ['mkdir', 'root/planted'],
  ['mkdir', 'dangling'],
  ['mkdir', '/nowhere/planted'],
  ['moveFrom', 'abs/secret'],
  ['moveFrom', '../etc'],
  ['moveFrom', 'procroot/secret'],
  ['moveFrom', 'rel/secret'],
  ['moveTo', 'abs/planted'],
  ['moveTo', '../planted'],
  ['moveTo', '/tmp/planted'],
  ['moveTo', 'chain/planted'],
  ['remove', 'abs/secret'],
  ['remove', 'chain/secret'],
  ['remove', '/'],
  ['remove', '..'],
  ['remove', 'rel/secret'],
  ['remove', 'procroot/secret'],
];

const refusedOtherwise: readonly [Act, string, FileRefusal][] = [
  ['remove', '../data', 'volume_root'],
  ['remove', 'a/..', 'volume_root'],
  ['moveFrom', 'a/b/../..', 'volume_root'],
  ['write', 'loop', 'not_found'],
  ['write', 'loop/x', 'not_found'],
  ['list', 'self', 'not_found'],
  ['mkdir', 'self/y', 'not_found'],
  ['read', 'loop', 'not_found'],
  ['write', 'fifo', 'not_a_file'],
  ['write', 'socket', 'not_a_file'],
  ['write', 'fifo/x', 'not_a_directory'],
  ['list', 'fifo', 'not_a_directory'],
  ['read', 'fifo', 'not_a_file'],
  ['read', 'socket', 'not_a_file'],
  ['write', 'a/', 'is_a_directory'],
  ['write', 'a/b', 'is_a_directory'],
  ['write', '', 'invalid_path'],
  ['write', 'nul\0', 'invalid_path'],
  ['read', '\0', 'invalid_path'],
  ['list', '\ud800', 'invalid_path'],
  ['write', 'n'.repeat(4_096), 'invalid_path'],
  ['mkdir', 'a/'.repeat(2_048), 'invalid_path'],
];

/** Names that look like special ones, but are ordinary names. */
const oddNames = [
  '．．．',
  '．．/．．/etc',
  '%2e%2e',
  '..%2fplanted',
  '-rf',
  '--',
  'cr\r\nX-Header: y',
  '"quotes"',
  "'",
  '$(id)',
  '`id`',
  ';id',
  '*',
  '\\',
  '~',
  '...',
  ' ',
  '\u202e',
];

/**
 * Races are only for a runtime that isolates: the local runtime only checks real paths, and its agents may do anything on the machine
 * anyway.
 */
export function fileAttacks(bed: RuntimeFixture, { isolates }: { isolates: boolean }): void {
  let view: ContainerView;
  let outside: string;

  const agent = (code: string, ...args: string[]) => inAgent(bed, view, code, ...args);
  const state = () =>
    agent(
      'const [at] = process.argv.slice(1); process.stdout.write(JSON.stringify(fs.readdirSync(at).map((name) => [name, fs.readFileSync(at + "/" + name, "utf8")])))',
      outside,
    );

  beforeAll(async () => {
    view = await bed.running({ SECRET });
    outside = `/tmp/outside-${randomUUID()}`;
    await agent('const [at] = process.argv.slice(1); fs.mkdirSync(at); fs.writeFileSync(at + "/secret", "secret of the outside")', outside);
    await agent(traps, outside, bed.runtime.name);
  });
  afterAll(async () => {
    await agent('fs.rmSync(process.argv[1], { recursive: true })', outside);
  });

  async function act(name: Act, path: string): Promise<unknown> {
    const { files } = bed.runtime;
    const signal = timeoutSignal(20_000);
    if (name === 'list') return files.list(view.handle, path, signal);
    if (name === 'read') return textOf((await files.read(view.handle, path, { maxBytes: 10_000_000, signal })).content);
    if (name === 'mkdir') return files.makeDirectory(view.handle, path, { parents: true, signal });
    if (name === 'moveFrom') return files.move(view.handle, path, `moved-${randomUUID()}`, signal);
    if (name === 'moveTo') return files.move(view.handle, 'a/file', path, signal);
    if (name === 'remove') return files.remove(view.handle, path, signal);
    return files.write(view.handle, path, Readable.from([Buffer.from('planted')]), options({ parents: true, signal }));
  }

  /** Returns the reason why the call was refused, or its result. Any other error is thrown. */
  async function outcome(name: Act, path: string): Promise<unknown> {
    return act(name, path).catch((error: unknown) => {
      if (error instanceof FileRefused) return error.reason;
      throw error;
    });
  }

  async function each<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
    const results: R[] = [];
    for (let at = 0; at < items.length; at += AT_ONCE) results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
    return results;
  }

  it('are refused outside the volume, whichever way a path leads there', async () => {
    const before = await state();
    const told = await each(outOfVolume, async ([name, path]) => [name, path, await outcome(name, path)]);
    expect(told).toEqual(outOfVolume.map(([name, path]) => [name, path, 'outside_volume']));
    expect(await state()).toBe(before);
    expect(await agent('process.stdout.write(fs.readFileSync("a/file"))')).toBe('inside');
  });

  it('are refused for a path that is circular, leads to no file, or is invalid', async () => {
    const told = await each(refusedOtherwise, async ([name, path]) => [name, path, await outcome(name, path)]);
    expect(told).toEqual(refusedOtherwise);
  });

  it('accept every valid name', async () => {
    const told = await each(oddNames, async (name) => {
      const { path } = (await act('write', `odd/${name}`)) as { path: string };
      return [path, await act('read', path)];
    });
    expect(told).toEqual(oddNames.map((name) => [`/data/odd/${name}`, 'planted']));
    const { entries } = await bed.runtime.files.list(view.handle, 'odd', soon());
    expect(entries.map(({ name }) => name)).toEqual(
      [...new Set(oddNames.map((name) => name.split('/')[0]))].toSorted((a, b) => ((a ?? '') < (b ?? '') ? -1 : 1)),
    );
  });

  it('are replaced rather than overwritten if they have another name outside the volume', async () => {
    const before = await state();
    expect(await act('write', 'hard')).toMatchObject({ created: false });
    expect(await state()).toBe(before);
    expect(await act('read', 'hard')).toBe('planted');
  });

  it('follow links that stay in the volume', async () => {
    expect(await act('write', 'inner/through')).toMatchObject({ path: '/data/a/b/through' });
    expect(await act('write', 'long/short')).toMatchObject({ path: '/data/a/short' });
    if (isolates) expect(await act('read', 'up/data/inner/through')).toBe('planted');
    expect(await act('remove', 'inner')).toEqual({ path: '/data/inner' });
    expect(await act('read', 'a/b/through')).toBe('planted');
  });

  it('never expose the system’s processes and devices, or the host’s own files', async () => {
    const paths = [
      '/proc/self/environ',
      '/proc/1/environ',
      'environ',
      'init/proc/1/environ',
      '/proc/1/cmdline',
      '/proc/self/fd/0',
      '/proc',
      '/sys',
      '/dev',
      '/dev/zero',
      'zero',
      '/proc/kcore',
      '/dev/stdin',
    ];
    const told = await each(paths, (path) => outcome('read', path));
    expect(told.filter((reason) => !['not_permitted', 'not_found', 'not_a_file', 'not_a_directory'].includes(String(reason)))).toEqual([]);
    if (isolates) return;
    const hosts = await each(
      ['/etc/passwd', 'etc/passwd', 'root/etc/hostname', 'abs/secret', 'secret', 'rel/secret', process.execPath],
      (path) => outcome('read', path),
    );
    expect(new Set(hosts)).toEqual(new Set(['not_found']));
  });

  it('stay in the volume for any path made of such parts', async () => {
    const part = fc.constantFrom(
      '..',
      '.',
      '',
      'a',
      'b',
      'abs',
      'root',
      'chain',
      'up',
      'loop',
      'data',
      'secret',
      'tmp',
      'fifo',
      'file',
      'new',
    );
    const paths = fc.sample(
      fc.array(part, { minLength: 1, maxLength: 7 }).map((parts) => parts.join('/')),
      { numRuns: 60, seed: 11 },
    );
    const before = await state();
    const acts: Act[] = ['write', 'list', 'mkdir', 'moveTo'];
    await each([...paths.entries()], async ([index, path]) => {
      const found = await outcome(acts[index % acts.length] as Act, path);
      if (typeof found === 'object')
        expect([path, (found as { path?: string; to?: string }).path ?? (found as { to: string }).to]).toEqual([
          path,
          expect.stringMatching(/^\/data($|\/)/),
        ]);
    });
    expect(await state()).toBe(before);
  });

  if (!isolates) return;

  it('stay in the volume while the agent swaps a folder for a link to the outside all the time', async () => {
    const before = await state();
    const over = new AbortController();
    const swap = `
      const fs = require('fs'); process.chdir(process.env.MOORING_VOLUME);
      fs.mkdirSync('flip/sub', { recursive: true }); fs.symlinkSync(process.argv[1], 'flop'); console.log('begun');
      const turn = () => {
        for (let n = 0; n < 200; n++) {
          try {
            fs.renameSync('flip', 'aside'); fs.renameSync('flop', 'flip'); fs.renameSync('flip', 'flop'); fs.renameSync('aside', 'flip');
          } catch {
            try { fs.mkdirSync('flip/sub', { recursive: true }); } catch {}
          }
        }
        setImmediate(turn);
      };
      turn();`;
    let begin = () => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const swapping = bed.runtime
      .exec(view.handle, {
        argv: ['node', '-e', swap, outside],
        timeoutMs: 120_000,
        outputLimitBytes: 1_000,
        signal: over.signal,
        onOutput: () => begin(),
      })
      .catch((error: unknown) => error);
    await begun;
    const calls: [Act, string][] = [
      ['write', 'flip/x'],
      ['list', 'flip'],
      ['mkdir', 'flip/sub/y'],
      ['read', 'flip/secret'],
      ['moveTo', 'flip/z'],
      ['remove', 'flip/sub'],
      ['moveFrom', 'flip/secret'],
      ['remove', 'flip/secret'],
    ];
    const told = await each(
      Array.from({ length: 200 }, (_, index) => calls[index % calls.length] as [Act, string]),
      async ([name, path]) => ({ name, found: await outcome(name, path) }),
    );
    over.abort(new Error('enough'));
    expect(await swapping).toEqual(new Error('enough'));
    expect(await state()).toBe(before);
    for (const { name, found } of told) {
      if (name === 'list' && typeof found === 'object')
        expect((found as { entries: { name: string }[] }).entries.map((entry) => entry.name)).not.toContain('secret');
    }
  });
}
