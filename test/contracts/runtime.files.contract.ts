import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { command, entriesOf, eventually, type RuntimeFixture } from './runtime.fixture.contract.ts';
import type { FileReadOptions, FileRefusal, FileWriteOptions } from '../../src/runtime/files.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { ContainerGone, RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

const MIB = 1024 * 1024;

export const soon = (): AbortSignal => timeoutSignal(60_000);

export const options = (other: Partial<FileWriteOptions> = {}): FileWriteOptions => ({
  maxBytes: 100 * MIB,
  reserve: null,
  onTaken: 'replace',
  parents: false,
  signal: soon(),
  ...other,
});

/** Runs the code in the agent, with its volume as the working directory, and returns the output. */
export async function inAgent(bed: RuntimeFixture, view: ContainerView, code: string, ...args: string[]): Promise<string> {
  const whole = `const fs = require("fs"); process.chdir(process.env.MOORING_VOLUME); ${code}`;
  const result = await bed.runtime.exec(view.handle, { ...command(['node', '-e', whole, '--', ...args]), outputLimitBytes: 4 * MIB });
  if (result.exitCode !== 0) throw new Error(result.stderr.toString());
  return result.stdout.toString();
}

export async function textOf(content: Readable): Promise<string> {
  return Buffer.concat(await content.toArray()).toString();
}

const roomOf = (bytes: number) => (more: number) => (bytes -= more) >= 0;

export const refused = (reason: FileRefusal) => expect.objectContaining({ name: 'FileRefused', reason });

export function files(bed: RuntimeFixture): void {
  let view: ContainerView;
  beforeAll(async () => {
    view = await bed.running({}, { user: '1000:1000' });
  });

  const agent = (code: string, ...args: string[]) => inAgent(bed, view, code, ...args);
  const write = (path: string, content: string | Buffer | Readable, other: Partial<FileWriteOptions> = {}) =>
    bed.runtime.files.write(
      view.handle,
      path,
      content instanceof Readable ? content : Readable.from([Buffer.from(content)]),
      options(other),
    );
  const read = (path: string, other: Partial<FileReadOptions> = {}) =>
    bed.runtime.files.read(view.handle, path, { maxBytes: null, signal: soon(), ...other });
  const names = async (path: string) => (await bed.runtime.files.list(view.handle, path, soon())).entries.map(({ name }) => name);
  const makeDirectory = (path: string, parents = true) => bed.runtime.files.makeDirectory(view.handle, path, { parents, signal: soon() });
  const move = (from: string, to: string) => bed.runtime.files.move(view.handle, from, to, soon());
  const remove = (path: string) => bed.runtime.files.remove(view.handle, path, soon());

  it('returns 20 MB byte for byte, whatever the sizes of the written chunks', async () => {
    const bytes = randomBytes(20 * MIB);
    const parts = [1, 65_536, 7, 5 * MIB, 1_000_003];
    async function* content() {
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const next = at + (parts[turn % parts.length] as number);
        yield bytes.subarray(at, next);
        at = next;
      }
    }
    expect(await write('large', Readable.from(content(), { objectMode: false }))).toEqual({
      path: '/data/large',
      size: bytes.length,
      created: true,
    });
    const found = await read('large');
    expect(found).toMatchObject({ path: '/data/large', kind: 'file', size: bytes.length });
    const hash = createHash('sha256');
    for await (const chunk of found.content) hash.update(chunk as Buffer);
    expect(hash.digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'));
  });

  it('writes a file that the agent owns and can read, and keeps its mode when it replaces it', async () => {
    expect(await write('note', 'first')).toEqual({ path: '/data/note', size: 5, created: true });
    expect(await agent('fs.writeFileSync("own", ""); fs.chmodSync("note", 0o750); process.stdout.write(fs.readFileSync("note"))')).toBe(
      'first',
    );
    expect(await write('/data/note', 'second')).toEqual({ path: '/data/note', size: 6, created: false });
    const facts = 'const of = (name) => { const { uid, gid } = fs.statSync(name); return uid + ":" + gid; };';
    const told = await agent(
      `${facts} process.stdout.write([of("note") === of("own"), (fs.statSync("note").mode & 0o777).toString(8), fs.readFileSync("note")].join())`,
    );
    expect(told).toBe('true,750,second');
  });

  it('writes an empty file, and reads it', async () => {
    expect(await write('run', '#!/bin/sh', { executable: true })).toMatchObject({ created: true });
    await write('note', 'third', { executable: true });
    const modes = 'process.stdout.write(["own", "run", "note"].map((name) => (fs.statSync(name).mode & 0o777).toString(8)).join())';
    await agent('fs.chmodSync("own", 0o640)');
    expect(await agent(modes)).toBe('640,755,751');
    expect(await write('empty', '')).toEqual({ path: '/data/empty', size: 0, created: true });
    const found = await read('empty');
    expect(found.size).toBe(0);
    expect(await textOf(found.content)).toBe('');
  });

  it('creates the parent folders of a file only on request', async () => {
    await expect(write('new/deep/file', 'x')).rejects.toEqual(refused('not_found'));
    expect(await write('new/deep/file', 'x', { parents: true })).toEqual({ path: '/data/new/deep/file', size: 1, created: true });
    expect(await agent('process.stdout.write(String(fs.statSync("new/deep").uid === fs.statSync("new/deep/file").uid))')).toBe('true');
  });

  it('keeps an existing file on request', async () => {
    await write('taken', 'old');
    await expect(write('taken', 'new', { onTaken: 'refuse' })).rejects.toEqual(refused('exists'));
    expect(await textOf((await read('taken')).content)).toBe('old');
    expect(await write('free', 'new', { onTaken: 'refuse' })).toMatchObject({ created: true });
  });

  it('leaves nothing of a file that is too large, exceeds the free space, breaks off or is aborted', async () => {
    await makeDirectory('unwritten');
    const large = () => Readable.from([Buffer.alloc(2 * MIB), Buffer.alloc(1)]);
    await expect(write('unwritten/a', large(), { maxBytes: 2 * MIB })).rejects.toEqual(refused('too_large'));
    await expect(write('unwritten/a', large(), { reserve: roomOf(2 * MIB) })).rejects.toEqual(refused('volume_full'));
    const broken = new PassThrough();
    broken.write(Buffer.alloc(2 * MIB));
    const breaking = write('unwritten/b', broken);
    breaking.catch(() => undefined);
    const all = 'process.stdout.write(fs.readdirSync("unwritten").join())';
    await eventually(async () => expect(await agent(all)).toMatch(/^\.mooring-unfinished-[^,]+$/));
    expect(await names('unwritten')).toEqual([]);
    broken.destroy(new Error('the caller has gone'));
    await expect(breaking).rejects.toThrow('the caller has gone');
    const leaving = new AbortController();
    const endless = write('unwritten/c', new PassThrough(), { signal: leaving.signal });
    leaving.abort(new Error('enough'));
    await expect(endless).rejects.toThrow('enough');
    expect(await agent(all)).toBe('');
  });

  it('removes the unfinished files that a crash left in a folder an hour ago', async () => {
    await makeDirectory('crashed');
    await agent(
      'fs.writeFileSync("crashed/.mooring-unfinished-young", ""); fs.writeFileSync("crashed/.mooring-unfinished-old", ""); fs.utimesSync("crashed/.mooring-unfinished-old", 1, 1)',
    );
    expect(await names('crashed')).toEqual([]);
    expect(await agent('process.stdout.write(fs.readdirSync("crashed").join())')).toBe('.mooring-unfinished-young');
  });

  it('lists a folder with names, kinds, sizes and times', async () => {
    const odd = ['a b', 'line\nbreak', '\n100 5 7 .', '-rf', 'ü', '"quotes\'', '$(id)', '.hidden', '..dots', '*', '\\'];
    await agent(
      'fs.mkdirSync("listed/folder", { recursive: true }); fs.writeFileSync("listed/five", "12345"); fs.utimesSync("listed/five", 1700000000, 1700000000.9);' +
        'fs.symlinkSync("/etc", "listed/link"); for (const name of process.argv.slice(1)) fs.writeFileSync("listed/" + name, "x");',
      ...odd,
    );
    const { root, path, entries, truncated } = await bed.runtime.files.list(view.handle, 'listed', soon());
    expect({ root, path, truncated }).toEqual({ root: '/data', path: '/data/listed', truncated: false });
    const expected = [...odd, 'five', 'folder', 'link'].toSorted((a, b) => (a < b ? -1 : 1));
    expect(entries.map(({ name }) => name)).toEqual(expected);
    const of = (wanted: string) => entries.find(({ name }) => name === wanted);
    expect(of('five')).toEqual({ name: 'five', kind: 'file', size: 5, mtime: 1_700_000_000 });
    expect([of('folder')?.kind, of('link')?.kind]).toEqual(['directory', 'link']);
    for (const name of odd) expect(of(name)).toMatchObject({ kind: 'file', size: 1 });
    expect(await names('.')).toContain('listed');
    expect(await names('/data')).toEqual(await names('.'));
    await makeDirectory('bare');
    expect(await names('bare')).toEqual([]);
    await expect(names('nowhere')).rejects.toEqual(refused('not_found'));
    await expect(names('listed/five')).rejects.toEqual(refused('not_a_directory'));
  });

  it('lists the first 10,000 entries of a larger folder, and reports that there are more', async () => {
    await agent('fs.mkdirSync("many"); for (let n = 0; n < 10050; n++) fs.symlinkSync("x", "many/" + String(n).padStart(200, "n"))');
    const { entries, truncated } = await bed.runtime.files.list(view.handle, 'many', soon());
    expect([entries.length, truncated]).toEqual([10_000, true]);
  });

  it('reads a part of a file, chosen by its size and time', async () => {
    await write('alphabet', 'abcdefghijklmnopqrstuvwxyz'.repeat(100_000));
    const seen: object[] = [];
    const range = (file: { size: number; mtime: number }) => (seen.push(file), { start: 1_300_003, end: 1_300_007 });
    const part = await read('alphabet', { range });
    expect(part.size).toBe(2_600_000);
    expect(await textOf(part.content)).toBe('defgh');
    expect(seen).toEqual([{ size: 2_600_000, mtime: part.mtime }]);
    expect(await textOf((await read('alphabet', { range: ({ size }) => ({ start: size - 1, end: size - 1 }) })).content)).toBe('z');
    expect((await textOf((await read('alphabet', { range: () => null })).content)).length).toBe(2_600_000);
    const refuse = () => {
      throw new Error('no such range');
    };
    await expect(read('alphabet', { range: refuse })).rejects.toThrow('no such range');
  });

  it('refuses at once to read a file that is too large, however large', async () => {
    await agent('fs.writeFileSync("sparse", ""); fs.truncateSync("sparse", 2 ** 40)');
    await expect(read('sparse', { maxBytes: 100 * MIB })).rejects.toEqual(refused('too_large'));
    const end = 2 ** 40 - 1;
    const last = await read('sparse', { range: () => ({ start: end - 9, end }) });
    expect(await textOf(last.content)).toBe('\0'.repeat(10));
    await remove('sparse');
  });

  it('stops reading when the reader goes away, even if it has read nothing', async () => {
    await agent('fs.writeFileSync("endless", ""); fs.truncateSync("endless", 2 ** 40)');
    for (const readsFirst of [true, false]) {
      const { content } = await read('endless');
      if (readsFirst) await once(content, 'readable');
      content.destroy();
      await once(content, 'close');
    }
    const leaving = new AbortController();
    const { content } = await read('endless', { signal: leaving.signal });
    leaving.abort();
    await expect(textOf(content)).rejects.toThrow();
    await remove('endless');
    expect(await names('.')).not.toContain('endless');
  });

  it('reads a folder as a tar, with links as links', async () => {
    await agent(
      'fs.mkdirSync("tree/deep/er", { recursive: true }); fs.writeFileSync("tree/a", "alpha"); fs.writeFileSync("tree/deep/er/b", "beta"); fs.symlinkSync("/etc/passwd", "tree/link")',
    );
    const found = await read('tree');
    expect(found).toMatchObject({ path: '/data/tree', kind: 'directory', size: null });
    const entries = await entriesOf(found.content);
    const told = entries.map(({ name, type, content }) => `${type} ${name.replace(/\/$/, '')} ${content}`).toSorted();
    expect(told).toEqual([
      'directory tree ',
      'directory tree/deep ',
      'directory tree/deep/er ',
      'file tree/a alpha',
      'file tree/deep/er/b beta',
      'symlink tree/link ',
    ]);
  });

  it('reads files of the agent outside its volume', async () => {
    const found = await read('/app/probe.mjs');
    expect(found).toMatchObject({ path: '/app/probe.mjs', kind: 'file' });
    expect(await textOf(found.content)).toContain('function serve()');
    await expect(read('/app/nothing')).rejects.toEqual(refused('not_found'));
    await expect(write('/app/probe.mjs', 'x')).rejects.toEqual(refused('outside_volume'));
  });

  it('creates folders', async () => {
    expect(await makeDirectory('one/two/three')).toEqual({ path: '/data/one/two/three', created: true });
    expect(await makeDirectory('one/two/three/')).toEqual({ path: '/data/one/two/three', created: false });
    expect(await makeDirectory('.')).toEqual({ path: '/data', created: false });
    await expect(makeDirectory('none/here', false)).rejects.toEqual(refused('not_found'));
    expect(await makeDirectory('one/four', false)).toEqual({ path: '/data/one/four', created: true });
    await write('one/file', 'x');
    await expect(makeDirectory('one/file')).rejects.toEqual(refused('exists'));
    await expect(makeDirectory('one/file/below')).rejects.toEqual(refused('not_a_directory'));
    expect(await agent('process.stdout.write(String(fs.statSync("one/two").uid === fs.statSync("one/file").uid))')).toBe('true');
  });

  it('moves files, folders and links, and never replaces anything', async () => {
    await agent(
      'fs.mkdirSync("from/inner", { recursive: true }); fs.mkdirSync("to/empty", { recursive: true }); fs.writeFileSync("from/inner/x", "x"); fs.symlinkSync("/etc", "from/link")',
    );
    expect(await move('from/inner/x', 'to/y')).toEqual({ from: '/data/from/inner/x', to: '/data/to/y' });
    expect(await move('from/link', 'to/link')).toEqual({ from: '/data/from/link', to: '/data/to/link' });
    expect(await names('to')).toEqual(['empty', 'link', 'y']);
    expect(await textOf((await read('to/y')).content)).toBe('x');
    for (const taken of ['to/empty', 'to/y', 'to/link', '.']) await expect(move('from/inner', taken)).rejects.toEqual(refused('exists'));
    expect(await move('from/inner', 'to/moved')).toEqual({ from: '/data/from/inner', to: '/data/to/moved' });
    await expect(move('to', 'to/moved/below')).rejects.toEqual(refused('invalid_path'));
    expect(await names('to/moved')).toEqual([]);
    await expect(move('from/nothing', 'to/z')).rejects.toEqual(refused('not_found'));
    await expect(move('to', 'to/nowhere/below')).rejects.toEqual(refused('invalid_path'));
    await expect(move('to/y', 'to/y/below')).rejects.toEqual(refused('not_a_directory'));
    await expect(move('from/nothing', 'nowhere/z')).rejects.toEqual(refused('not_found'));
    expect(await names('.')).not.toContain('nowhere');
    expect(await move('to/y', 'nowhere/yet/z')).toEqual({ from: '/data/to/y', to: '/data/nowhere/yet/z' });
    expect(await move('nowhere/yet/z', 'to/y')).toEqual({ from: '/data/nowhere/yet/z', to: '/data/to/y' });
    await expect(move('.', 'to/z')).rejects.toEqual(refused('volume_root'));
    await expect(move('to/y', '/app/y')).rejects.toEqual(refused('outside_volume'));
    await expect(move('/app/probe.mjs', 'stolen')).rejects.toEqual(refused('outside_volume'));
    expect(await agent('process.stdout.write(fs.readlinkSync("to/link"))')).toBe('/etc');
  });

  it('replaces a file by a move if that is allowed, and nothing but a file', async () => {
    const replace = (from: string, to: string) => bed.runtime.files.move(view.handle, from, to, soon(), 'replace');
    await agent('fs.mkdirSync("onto/folder", { recursive: true }); fs.symlinkSync("old", "onto/link")');
    await agent('for (const name of ["new", "old"]) fs.writeFileSync("onto/" + name, name)');
    for (const taken of ['onto/folder', 'onto/link']) await expect(replace('onto/new', taken)).rejects.toEqual(refused('exists'));
    await expect(replace('onto/folder', 'onto/old')).rejects.toEqual(refused('exists'));
    expect(await replace('onto/new', 'onto/old')).toEqual({ from: '/data/onto/new', to: '/data/onto/old' });
    expect([await names('onto'), await textOf((await read('onto/old')).content)]).toEqual([['folder', 'link', 'old'], 'new']);
    expect(await replace('onto/old', 'onto/free')).toMatchObject({ to: '/data/onto/free' });
  });

  it('removes files, links and whole folders, but not the volume', async () => {
    await agent(
      'let deep = "gone"; for (let n = 0; n < 90; n++) deep += "/d"; fs.mkdirSync(deep, { recursive: true }); fs.writeFileSync(deep + "/-f", "");' +
        'fs.mkdirSync("gone/.dot/..dots", { recursive: true }); fs.writeFileSync("gone/line\\nbreak", ""); fs.mkdirSync("kept"); fs.writeFileSync("kept/x", "");' +
        'fs.symlinkSync("../kept", "gone/link"); fs.mkdirSync("gone/closed", { mode: 0 });',
    );
    expect(await remove('gone/link')).toEqual({ path: '/data/gone/link' });
    await agent('fs.symlinkSync("../kept", "gone/link")');
    expect(await remove('gone')).toEqual({ path: '/data/gone' });
    expect(await names('.')).not.toContain('gone');
    expect(await names('kept')).toEqual(['x']);
    await expect(remove('gone')).rejects.toEqual(refused('not_found'));
    for (const root of ['.', '/data', '/data/', 'kept/..', './.']) await expect(remove(root)).rejects.toEqual(refused('volume_root'));
    await expect(remove('/app/probe.mjs')).rejects.toEqual(refused('outside_volume'));
    expect(await names('kept')).toEqual(['x']);
  });

  it('measures the agent’s files from inside the container', async () => {
    const bounds = { withinMs: 60_000, filesMax: 100_000 };
    const before = await bed.runtime.files.measure(view.handle, bounds);
    await write('measured/large', Buffer.alloc(3 * MIB, 'x'), { parents: true });
    const after = await bed.runtime.files.measure(view.handle, bounds);
    expect(((after?.bytes ?? NaN) - (before?.bytes ?? NaN)) / MIB).toBeCloseTo(3, 0);
    expect((after?.files ?? NaN) - (before?.files ?? NaN)).toBe(2);
    await remove('measured');
  });

  it('refuses if the container does not run or does not exist', async () => {
    const still = await bed.created();
    await expect(bed.runtime.files.list(still.handle, '.', soon())).rejects.toThrow(RuntimeRefused);
    await bed.runtime.remove(still.handle);
    await expect(bed.runtime.files.list(still.handle, '.', soon())).rejects.toThrow(ContainerGone);
  });

  it('does nothing for a caller who has already gone', async () => {
    const signal = AbortSignal.abort(new Error('gone'));
    await write('stays', 'x');
    await expect(bed.runtime.files.list(view.handle, '.', signal)).rejects.toThrow('gone');
    await expect(read('stays', { signal })).rejects.toThrow('gone');
    await expect(write('unwanted', 'x', { signal })).rejects.toThrow('gone');
    await expect(bed.runtime.files.makeDirectory(view.handle, 'unwanted', { parents: true, signal })).rejects.toThrow('gone');
    await expect(bed.runtime.files.move(view.handle, 'stays', 'unwanted', signal)).rejects.toThrow('gone');
    await expect(bed.runtime.files.remove(view.handle, 'stays', signal)).rejects.toThrow('gone');
    expect(await names('.')).toContain('stays');
    expect(await names('.')).not.toContain('unwanted');
  });
}
