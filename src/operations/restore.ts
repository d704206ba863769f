/**
 * Replaces the content of the database with a backup.
 *
 * It owns the checks of the files, the keys and the installation, and the one transaction that replaces all tables. It does not own the
 * archive's format (`archive.ts`) or the tables' content (`fillTables`).
 *
 * R1  Nothing is written before every file was checked and fits the installation's keys and id.
 * R2  The replacement is atomic: after an interruption a service finds the previous state, or refuses to start on a half-restored database.
 * R3  Whatever was shredded or deleted since the backup stays so: destroyed keys are destroyed again, and deletions are requested again.
 * R4  No other connection uses the database meanwhile.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type pg from 'pg';

import { pause } from '../kernel/async/pause.ts';
import type { Config } from '../kernel/config/config.ts';
import { masterKeyBytes } from '../kernel/config/master-key-bytes.ts';
import { INSTALLATION_SUBJECT } from '../crypto/container-key.ts';
import { keyIdOf } from '../crypto/envelope.ts';
import { ShredLedger } from '../crypto/shred-ledger.ts';
import { grantToApplication } from '../postgres/database/application-role.ts';
import { addressOf, connectOwner, migrate, restoreMarker } from '../postgres/database/migrate.ts';
import { migrations } from '../postgres/migrations/index.ts';
import { holdPostgres } from '../postgres/embedded/reach-postgres.ts';
import type { EventCatalogue } from '../eventsourcing/event-store/event-catalogue.ts';
import { readIfExists, writeOnce } from '../kernel/files.ts';
import type { Manifest } from './archive.ts';
import { checkedBackup, type CheckedBackup } from './checked-backup.ts';
import { repeatDeletions } from './delete-again.ts';
import { clearTables, fillTables, isEmpty } from './fill-tables.ts';

/** R4: The time for which other connections may still end before they count as a running service, in ms. */
const OTHERS_END_TIMEOUT_MS = 5_000;
const OTHERS_POLL_MS = 100;

export interface RestoreOptions {
  from: string;
  /** A file of keys, if the backup was written without keys or the file is newer; null uses the backup's own keys. */
  keys: string | null;
  /** The ledgers of shredded subjects besides the one in the data folder. */
  shredded: string[];
  /** The value is true if the content of the database may be replaced. */
  replace: boolean;
  /** The value is true if the result is another installation, beside the one that was backed up. */
  asCopy: boolean;
}

export interface Restored {
  manifest: Manifest;
  /** The number of subjects whose keys stay destroyed although the backup may hold them. */
  shredded: number;
  /** The agents and computers in the backup, by sandbox id, that had been deleted since then; their deletion was requested again. */
  deletedAgain: string[];
}

/** Restores the backup. Services rebuild the read models. Throws before anything is written if a file is damaged or does not fit. */
export async function restore(config: Config, catalogue: EventCatalogue, options: RestoreOptions): Promise<Restored> {
  const backup = await checkedBackup(options.from);
  const keys = await keysFor(backup, options.keys);
  refuseUnknown(backup);
  const masterKeyId = await verifiedMasterKeyId(config, keys.manifest);
  const instanceId = await verifiedInstanceId(config, backup.manifest, options.asCopy);
  const server = await holdPostgres(config);
  try {
    const address = addressOf(server.url);
    const owner = await connectOwner(address);
    try {
      await assertNoOtherConnections(owner);
      const role = await migrate(owner, address);
      if (role !== null) await grantToApplication(owner);
      await refuseToOverwrite(owner, options.replace);
      if (instanceId !== null) await writeOnce(join(config.dataDir, 'instance-id'), `${instanceId}\n`, 0o644);
      return await inOneTransaction(owner, { backup, keys, masterKeyId, catalogue, ledgers: ledgersFor(config, options) });
    } finally {
      await owner.end();
    }
  } finally {
    await server.release();
  }
}

interface RestorePlan {
  backup: CheckedBackup;
  keys: CheckedBackup;
  masterKeyId: string;
  catalogue: EventCatalogue;
  /** The ledgers; that of the data folder is the first. */
  ledgers: [ShredLedger, ...ShredLedger[]];
}

async function inOneTransaction(owner: pg.Client, { backup, keys, masterKeyId, catalogue, ledgers }: RestorePlan): Promise<Restored> {
  await owner.query('begin');
  try {
    for (const setting of ['statement_timeout', 'idle_in_transaction_session_timeout']) await owner.query(`set local ${setting} = 0`);
    await owner.query(`set local datestyle = 'ISO'`);
    const shredded = await allShreddedSubjects(owner, [backup, keys], ledgers);
    const standing = await installationKey(owner, masterKeyId);
    await clearTables(owner);
    await fillTables(owner, { backup, keys, shredded, masterKeyId });
    if (standing !== null && (await installationKey(owner, masterKeyId)) === null) await keepInstallationKey(owner, standing);
    const deletedAgain = await repeatDeletions(owner, catalogue, shredded);
    // The ledger is written before the commit. An entry that is too early does no harm, because its subject is shredded already.
    await ledgers[0].add(shredded);
    await owner.query(`drop table if exists ${restoreMarker}`);
    await owner.query('commit');
    return { manifest: backup.manifest, shredded: shredded.size, deletedAgain };
  } catch (error) {
    await owner.query('rollback').catch(() => undefined);
    throw error;
  }
}

interface InstallationKey {
  version: number;
  kek_id: string;
  wrapped: Buffer;
}

/** Returns the installation's own key if the master key with this id opens it. */
async function installationKey(owner: pg.Client, masterKeyId: string): Promise<InstallationKey | null> {
  const { rows } = await owner.query<InstallationKey>(
    'select version, kek_id, wrapped from data_keys where subject = $1 and kek_id = $2 and wrapped is not null',
    [INSTALLATION_SUBJECT, masterKeyId],
  );
  return rows[0] ?? null;
}

/**
 * Keeps the key of the replaced database if the backup is of an older release and lacks it: containers on the engine are recognised by it.
 */
async function keepInstallationKey(owner: pg.Client, { version, kek_id, wrapped }: InstallationKey): Promise<void> {
  const values = [INSTALLATION_SUBJECT, version, kek_id, wrapped];
  await owner.query('insert into data_keys (subject, version, kek_id, wrapped) values ($1, $2, $3, $4)', values);
}

/** Returns all subjects whose keys were destroyed according to the database, the files or the ledgers. */
async function allShreddedSubjects(owner: pg.Client, files: CheckedBackup[], ledgers: ShredLedger[]): Promise<Set<string>> {
  const all = new Set(files.flatMap(({ tombstones }) => [...tombstones]));
  for (const ledger of ledgers) for await (const subjects of ledger.subjects()) for (const subject of subjects) all.add(subject);
  const { rows } = await owner.query<{ subject: string }>('select distinct subject from data_keys where wrapped is null');
  for (const { subject } of rows) all.add(subject);
  return all;
}

function ledgersFor(config: Config, { shredded }: RestoreOptions): [ShredLedger, ...ShredLedger[]] {
  for (const file of shredded) if (!existsSync(file)) throw new Error(`there is no file ${file}`);
  return [ShredLedger.in(config.dataDir), ...shredded.map((file) => new ShredLedger(file))];
}

async function keysFor(backup: CheckedBackup, file: string | null): Promise<CheckedBackup> {
  if (backup.manifest.keys === 'only')
    throw new Error(`${backup.file} contains only keys: give it with --keys, and the backup of the log as the file`);
  if (file === null) {
    if (backup.manifest.keys === 'included') return backup;
    throw new Error(`${backup.file} was written without keys, so no message could be read: give them with --keys`);
  }
  const keys = await checkedBackup(file);
  if (keys.manifest.keys === 'none') throw new Error(`${file} contains no keys`);
  if (keys.manifest.instance_id !== backup.manifest.instance_id)
    throw new Error(`${file} belongs to another installation than ${backup.file}`);
  if (keys.manifest.at < backup.manifest.at)
    throw new Error(
      `the keys in ${file} are older (${keys.manifest.at}) than the backup (${backup.manifest.at}): keys created in between would be missing`,
    );
  return keys;
}

function refuseUnknown({ file, manifest }: CheckedBackup): void {
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = manifest.migrations.filter((name) => !known.has(name));
  if (unknown.length > 0)
    throw new Error(
      `${file} was written by a newer release, or by a program from before the first release: this release does not know ${unknown.join(', ')}`,
    );
}

/**
 * Returns the id of the installation's master key, which must be the one that wraps the keys. Never creates a master key, unlike the first
 * start.
 */
async function verifiedMasterKeyId({ masterKey, dataDir }: Config, { master_key_ids }: Manifest): Promise<string> {
  const file = join(dataDir, 'master.key');
  const written = masterKey ?? (await readIfExists(file))?.trim() ?? null;
  const needed = master_key_ids[0];
  if (written === null) {
    if (needed === undefined) return 'none';
    throw new Error(
      `the master key is missing: put that of the backed-up installation (${needed}) into ${file}, or set MOORING_MASTER_KEY`,
    );
  }
  const key = masterKeyBytes(written);
  if (key === null) throw new Error(`the master key is not 32 bytes, as base64 or hex`);
  const found = keyIdOf(key);
  const other = master_key_ids.find((id) => id !== found);
  if (other !== undefined) throw new Error(`the master key does not match the keys: it is ${found}, and they need ${other}`);
  return found;
}

/** Returns the instance id to write; null if the folder has it already, or if the result is another installation. */
async function verifiedInstanceId({ dataDir }: Config, { instance_id }: Manifest, asCopy: boolean): Promise<string | null> {
  const standing = (await readIfExists(join(dataDir, 'instance-id')))?.trim() ?? null;
  if (asCopy && instance_id !== null && standing === instance_id)
    throw new Error(`${dataDir} is the folder of the installation that was backed up (${instance_id}): a copy needs a folder of its own`);
  if (asCopy || instance_id === null || standing === instance_id) return null;
  if (standing === null) return instance_id;
  throw new Error(
    `${dataDir} belongs to installation ${standing}, and the backup to ${instance_id}, whose containers and volumes bear that name: ` +
      `give --as-copy to make another installation of it, or remove ${join(dataDir, 'instance-id')} to continue as ${instance_id}`,
  );
}

/**
 * Throws if anything else (a service, or another tool) is connected for 5 s. The server lists a connection for a moment after its client
 * has closed it, so this waits for a service that has just stopped.
 */
export async function assertNoOtherConnections(owner: pg.Client): Promise<void> {
  const deadline = performance.now() + OTHERS_END_TIMEOUT_MS;
  for (let others = await otherConnections(owner); others > 0; others = await otherConnections(owner)) {
    if (performance.now() > deadline) throw new Error(`${others} other connections use this database: stop every service on it first`);
    await pause(OTHERS_POLL_MS);
  }
}

async function otherConnections(owner: pg.Client): Promise<number> {
  const { rows } = await owner.query<{ others: number }>(
    `select count(*)::int as others from pg_stat_activity
      where datname = current_database() and usename = current_user and backend_type = 'client backend' and pid <> pg_backend_pid()`,
  );
  return rows[0]?.others ?? 0;
}

/**
 * Throws if the database is not empty and may not be replaced. Marks an empty one, so that no service treats it as a new installation if
 * the restore is interrupted.
 */
async function refuseToOverwrite(owner: pg.Client, replace: boolean): Promise<void> {
  if (await isEmpty(owner)) await owner.query(`create table if not exists ${restoreMarker} (begun_at timestamptz not null default now())`);
  else if (!replace) throw new Error('the database contains an installation already: give --replace to replace it by the backup');
}
