import { createHash } from 'node:crypto';
import { realpath, stat } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { tarOf } from './build-context.ts';
import { fixedEntries, machineProgram, toolEntries, withFolders } from './machine-programs.ts';
import { findImage, importImage } from './registry.ts';

/** The version of the layout. It is part of the tag, so that a change of the content results in a new image. */
const LAYOUT_VERSION = 2;

/**
 * Ensures a base image with this machine's own Node: its binary, the shared libraries that it needs, those for name lookups, and a shell
 * with the usual tools, which scripts of agents need. It is built once for each binary, and only for an engine on this machine. Returns its name.
 */
export async function ensureNodeBase(docker: Dockerode, signal: AbortSignal): Promise<string> {
  const node = await realpath(process.execPath);
  const { size, mtimeMs } = await stat(node);
  const key = createHash('sha256').update(JSON.stringify([LAYOUT_VERSION, process.version, size, mtimeMs]));
  const name = `mooring-base-node:${key.digest('hex').slice(0, 16)}`;
  if ((await findImage(docker, name)) !== null) return name;
  const entries = [...fixedEntries(), ...(await toolEntries()), ...(await machineProgram(node, 'usr/local/bin/node'))];
  await importImage(docker, tarOf(withFolders(entries)), name, ['ENV PATH=/usr/local/bin:/usr/bin:/bin', 'CMD ["node"]'], signal);
  return name;
}
