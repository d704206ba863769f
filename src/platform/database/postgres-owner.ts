import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { eventually, startedAt } from './postgres-process.ts';

const ATTEMPTS = 10;
/** A start waits this long, ms, for the process that has the data directory: one that was killed takes a moment to die, one that stops a little longer. */
const OWNER_PATIENCE_MS = 15_000;

/**
 * Takes a data directory for this process, so that a second Mooring does not adopt, and later end, the server of a living one.
 * What a killed process left behind is taken over; one that still lives is waited for, and `onWait` is told so once. Answers what
 * gives the directory back. Throws where its owner lives on.
 */
export async function claimDataDir(dataDir: string, onWait: (owner: number, withinMs: number) => void): Promise<() => void> {
  const owner = ownerOf(dataDir);
  if (owner !== null && owner !== process.pid) {
    onWait(owner, OWNER_PATIENCE_MS);
    await eventually(() => ownerOf(dataDir) === null, OWNER_PATIENCE_MS);
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
  throw new Error(`the data directory ${dataDir} is being taken by several processes at once`);
}

/** The process that has the data directory, where it lives; else null. */
export function ownerOf(dataDir: string): number | null {
  const [pid = '', began = ''] = readQuietly(join(dataDir, 'postgres.owner'))?.split(' ') ?? [];
  return began !== '' && startedAt(Number(pid)) === began ? Number(pid) : null;
}

/** A link appears with its content at once and only where nothing stands yet. */
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

/** Of several processes that find the same dead owner, a rename lets one win; a name that a faster one wrote meanwhile is put back. */
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
