import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type Dockerode from 'dockerode';
import { tarOf, type TarEntry } from './build-context.ts';
import { findImage, importImage } from './registry.ts';

/** The version of the layout. It is part of the tag, so that a change of the content results in a new image. */
const LAYOUT_VERSION = 1;
const LDD_TIMEOUT_MS = 10_000;
const certificates = '/etc/ssl/certs/ca-certificates.crt';
/** The libraries that the C library loads for name lookups, which `ldd` does not list. */
const nameService = ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2'];

/**
 * Ensures a base image with this machine's own Node: its binary, the shared libraries that it needs, and those for name lookups. It is
 * built once for each binary, and only for an engine on this machine. Returns its name.
 */
export async function ensureNodeBase(docker: Dockerode, signal: AbortSignal): Promise<string> {
  const node = await realpath(process.execPath);
  const { size, mtimeMs } = await stat(node);
  const key = createHash('sha256').update(JSON.stringify([LAYOUT_VERSION, process.version, size, mtimeMs]));
  const name = `mooring-base-node:${key.digest('hex').slice(0, 16)}`;
  if ((await findImage(docker, name)) !== null) return name;
  const tar = tarOf([...fixedEntries(), ...(await machineProgram(node, 'usr/local/bin/node'))]);
  await importImage(docker, tar, name, ['ENV PATH=/usr/local/bin:/usr/bin:/bin', 'CMD ["node"]'], signal);
  return name;
}

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
