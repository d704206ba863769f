import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../kernel/config/config.ts';
import type { Installation } from '../postgres/database/installation.ts';
import { readIfExists, writeOnce, writeAtomically } from '../kernel/files.ts';

const FILE_NAME = 'instance-id';
const MODE = 0o644;

/** The identity of this installation in the engine. */
export interface Instance {
  /**
   * An id of 12 hexadecimal characters, with which containers and volumes are labelled, so that two installations on one engine do not
   * affect each other.
   */
  id: string;
  /** The value is true if the data folder is the installation's own. A replica whose agents run in an engine may use another folder. */
  hasFolder: boolean;
}

/** Returns the id in `<data dir>/instance-id`, and creates the file if there is none. Throws if the file holds something else. */
export async function instanceId(dataDir: string): Promise<string> {
  return (await readId(dataDir)) ?? checked(dataDir, await writeOnce(fileIn(dataDir), `${randomId()}\n`, MODE));
}

/**
 * Returns the id that all services on the database share: that of the first service's data folder. An embedded database lies in that
 * folder, so the two belong together whatever the file says. Throws if the folder belongs to another installation.
 */
export async function sharedInstance(
  { dataDir, databaseUrl }: Pick<Config, 'dataDir' | 'databaseUrl'>,
  installation: Pick<Installation, 'read' | 'getOrSet'>,
): Promise<Instance> {
  const kept = await readId(dataDir);
  let id = await installation.read('instance_id');
  if (id === null) {
    // If the file is gone right after its creation, another replica with this folder has found that another folder's id was stored
    // first.
    const own = kept ?? (await instanceId(dataDir).catch(onlyMissing)) ?? randomId();
    id = await installation.getOrSet('instance_id', own);
    // Another folder's id was stored first, so this file is not used.
    if (id !== own && kept === null) await rm(fileIn(dataDir), { force: true });
    if (id === own) return { id, hasFolder: true };
  }
  if (kept === id) return { id, hasFolder: true };
  if (databaseUrl === null) {
    await writeAtomically(fileIn(dataDir), `${id}\n`, MODE);
    return { id, hasFolder: true };
  }
  // Another replica with this folder may have stored its id as the installation's after the file was read.
  if (kept === null) return { id, hasFolder: (await readId(dataDir)) === id };
  throw new Error(
    `the data folder ${dataDir} is the installation ${kept}'s, and the database the installation ${id}'s: ` +
      'give each installation a folder of its own with MOORING_DATA_DIR',
  );
}

async function readId(dataDir: string): Promise<string | null> {
  const written = await readIfExists(fileIn(dataDir));
  return written === null ? null : checked(dataDir, written);
}

function checked(dataDir: string, written: string): string {
  const id = written.trim();
  if (!/^[0-9a-f]{12}$/.test(id)) throw new Error(`${fileIn(dataDir)} does not hold an instance id (12 hex characters)`);
  return id;
}

function onlyMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}

const randomId = () => randomBytes(6).toString('hex');

const fileIn = (dataDir: string) => join(dataDir, FILE_NAME);
