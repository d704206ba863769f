import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { TarEntry } from './build-context.ts';

const LDD_TIMEOUT_MS = 10_000;
const certificates = '/etc/ssl/certs/ca-certificates.crt';
/** The libraries that the C library loads for name lookups, which `ldd` does not list. */
const nameService = ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2'];
/** The shells and the programs that scripts call most often, as far as this machine has them. */
const tools =
  'basename bash cat chmod cp cut dirname echo expr false grep head ls ln mkdir mv pwd rm rmdir sed sh sleep sort tail test touch tr true uname wc'.split(
    ' ',
  );
/** Libraries besides the C library that programs in packages need. */
const common = ['libgcc_s.so.1', 'libstdc++.so.6', 'libdl.so.2', 'libpthread.so.0', 'librt.so.1', 'libutil.so.1'];

const file = (name: string, source: string, mode = 0o644): TarEntry => ({ name, type: 'file', mode, source });
const text = (name: string, content: string): TarEntry => ({ name, type: 'file', mode: 0o644, content });
const folder = (name: string, mode = 0o755): TarEntry => ({ name, type: 'directory', mode });

/** Returns the entries that every base image of this machine's programs has: folders, users, name lookup and certificates. */
export function fixedEntries(): TarEntry[] {
  return [
    ...['etc', 'usr', 'usr/local', 'usr/local/bin', 'root', 'app', 'data'].map((name) => folder(name)),
    folder('tmp', 0o1777),
    text('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nagent:x:10001:10001:agent:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n'),
    text('etc/group', 'root:x:0:\nagent:x:10001:\nnogroup:x:65534:\n'),
    text('etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n'),
    ...(existsSync(certificates) ? [file(certificates.slice(1), certificates)] : []),
  ];
}

/** Returns the tar entries of one of this machine's programs under the given name, and of its libraries under their own paths. */
export async function machineProgram(path: string, name: string): Promise<TarEntry[]> {
  const named = await librariesOf(path);
  return [...named, file(name, path, 0o755)];
}

/** Returns the entries of the shared libraries that these files need, under their own paths; none if they need none. */
export async function librariesOf(...programs: string[]): Promise<TarEntry[]> {
  const { stdout } = await promisify(execFile)('ldd', programs, { timeout: LDD_TIMEOUT_MS }).catch(() => ({ stdout: '' }));
  const named = [...stdout.matchAll(/^[ \t]*(?:\S+ => )?(\/\S+) \(0x/gm)].map((match) => match[1] ?? '');
  const beside = named.filter((path) => /\/libc\.so/.test(path)).flatMap((path) => nameService.map((name) => join(dirname(path), name)));
  const paths = new Set([...named, ...beside.filter((path) => existsSync(path))]);
  return [...paths].map((path) => file(path.slice(1), path, 0o755));
}

/** Returns the entries of a shell and of the usual tools of this machine. */
export async function toolEntries(): Promise<TarEntry[]> {
  const paths = [...tools.map((name) => `/bin/${name}`), '/usr/bin/env'].filter((path) => existsSync(path));
  const found = (await Promise.all(paths.map(async (path) => machineProgram(await realpath(path), path.slice(1))))).flat();
  const folders = new Set(found.filter(({ name }) => /\/libc\.so/.test(name)).map(({ name }) => dirname(name)));
  const beside = [...folders].flatMap((place) => common.map((name) => `${place}/${name}`)).filter((name) => existsSync(`/${name}`));
  return [...found, ...beside.map((name): TarEntry => ({ name, type: 'file', mode: 0o755, source: `/${name}` }))];
}

/** Returns each entry once, after the folders that contain it. An engine may create missing folders that only root can open. */
export function withFolders(entries: TarEntry[]): TarEntry[] {
  const found = new Map<string, TarEntry>();
  for (const entry of entries) {
    const parts = entry.name.split('/').slice(0, -1);
    parts.forEach((_, at) => {
      const name = parts.slice(0, at + 1).join('/');
      if (!found.has(name)) found.set(name, { name, type: 'directory', mode: 0o755 });
    });
    if (!found.has(entry.name) || entry.type === 'directory') found.set(entry.name, entry);
  }
  return [...found.values()];
}
