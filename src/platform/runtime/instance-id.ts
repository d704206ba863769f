import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../../config.ts';
import type { Installation } from '../database/installation.ts';
import { readIfThere, writeOnce, writeWhole } from '../files.ts';

const FILE_NAME = 'instance-id';
const MODE = 0o644;

/** This installation as the engine knows it. */
export interface Instance {
  /** 12 hex characters: containers and volumes bear it, so that two installations on one engine leave each other's alone. */
  id: string;
  /** Whether the data folder is the installation's own; another one is good enough for a replica whose agents are in an engine. */
  hasFolder: boolean;
}

/** The id that the data folder keeps, in `<data dir>/instance-id`; made where there is none. Throws where the file holds something else. */
export async function instanceId(dataDir: string): Promise<string> {
  return (await readId(dataDir)) ?? checked(dataDir, await writeOnce(fileIn(dataDir), `${randomId()}\n`, MODE));
}

/**
 * The id that all services on the database share: that of the first one's data folder. An embedded database lies in the folder, so
 * they belong together whatever the file says. Throws where the folder is another installation's.
 */
export async function sharedInstance(
  { dataDir, databaseUrl }: Pick<Config, 'dataDir' | 'databaseUrl'>,
  installation: Pick<Installation, 'read' | 'settle'>,
): Promise<Instance> {
  const kept = await readId(dataDir);
  let id = await installation.read('instance_id');
  if (id === null) {
    // Where it goes as soon as it was made, a replica in the same folder has found that another folder was faster.
    const own = kept ?? (await instanceId(dataDir).catch(onlyMissing)) ?? randomId();
    id = await installation.settle('instance_id', own);
    // Another folder was faster: this one is nobody's.
    if (id !== own && kept === null) await rm(fileIn(dataDir), { force: true });
    if (id === own) return { id, hasFolder: true };
  }
  if (kept === id) return { id, hasFolder: true };
  if (databaseUrl === null) {
    await writeWhole(fileIn(dataDir), `${id}\n`, MODE);
    return { id, hasFolder: true };
  }
  // A replica in the same folder may have made it the installation's since it was read.
  if (kept === null) return { id, hasFolder: (await readId(dataDir)) === id };
  throw new Error(
    `the data folder ${dataDir} is the installation ${kept}'s, and the database the installation ${id}'s: ` +
      'give each installation a folder of its own with MOORING_DATA_DIR',
  );
}

async function readId(dataDir: string): Promise<string | null> {
  const written = await readIfThere(fileIn(dataDir));
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
