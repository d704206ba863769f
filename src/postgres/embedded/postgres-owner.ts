import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { waitUntil, startedAt } from './postgres-process.ts';

const ATTEMPTS = 10;
/**
 * The time for which a start waits for the process that owns the data directory, in ms: a killed process takes a moment to die,
 * one that stops takes a little longer.
 */
const OWNER_PATIENCE_MS = 15_000;

/**
 * Claims a data directory for this process, so that a second Mooring does not adopt, and later stop, the server of a running one. A
 * directory left by a killed process is claimed; for a running owner it waits, after one call of `onWait`. Returns a function that releases
 * the directory. Throws if its owner is still running after 15 s.
 */
export async function claimDataDir(dataDir: string, onWait: (owner: number, withinMs: number) => void): Promise<() => void> {
  const owner = ownerOf(dataDir);
  if (owner !== null && owner !== process.pid) {
    onWait(owner, OWNER_PATIENCE_MS);
    await waitUntil(() => ownerOf(dataDir) === null, OWNER_PATIENCE_MS);
  }
  return claimNow(dataDir);
}

function claimNow(dataDir: string): () => void {
  const file = join(dataDir, 'postgres.owner');
  const mine = `${process.pid} ${startedAt(process.pid) ?? ''}`;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (createWhole(file, mine)) return () => rmSync(file, { force: true });
    const owner = readQuietly(file);
    if (owner === undefined) continue;
    const living = ownerOf(dataDir);
    if (living !== null) throw new Error(`the data directory ${dataDir} is in use by process ${living}`);
    removeIfStill(file, owner);
  }
  throw new Error(`the data directory ${dataDir} is being claimed by several processes at once`);
}

/** Returns the id of the process that owns the data directory, or null if none is running. */
export function ownerOf(dataDir: string): number | null {
  const [pid = '', began = ''] = readQuietly(join(dataDir, 'postgres.owner'))?.split(' ') ?? [];
  return began !== '' && startedAt(Number(pid)) === began ? Number(pid) : null;
}

/** Creates the file if there is none, by a link, which appears together with its content. Returns false if the file exists. */
function createWhole(file: string, content: string): boolean {
  const aside = `${file}.${randomUUID()}`;
  writeFileSync(aside, content, { mode: 0o600 });
  try {
    linkSync(aside, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(aside);
  }
}

/**
 * Removes the file if it still names this owner. If several processes find the same dead owner, only one can rename the file; if a faster
 * one has written its own name meanwhile, the file is put back.
 */
function removeIfStill(file: string, owner: string): void {
  const aside = `${file}.${randomUUID()}`;
  try {
    renameSync(file, aside);
  } catch {
    return;
  }
  if (readQuietly(aside) === owner) rmSync(aside, { force: true });
  else renameSync(aside, file);
}

function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
