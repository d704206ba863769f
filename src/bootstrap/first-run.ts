import { randomBytes, randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { CommandBus } from '@nestjs/cqrs';

import { AssignPlan, OpenAccount } from '../features/accounts/index.ts';
import { IssueApiKey } from '../features/api-keys/index.ts';
import type { Config } from '../kernel/config/config.ts';
import { base62 } from '../crypto/base62.ts';
import type { Database } from '../postgres/database/database.ts';
import { Installation } from '../postgres/database/installation.ts';
import { readIfExists, writeAtomically } from '../kernel/files.ts';
import { scopes } from '../kernel/context/caller.ts';
import { systemContext } from '../kernel/context/command-context.ts';
import { ProblemError } from '../kernel/errors/problem-error.ts';
import { Provision } from '../features/provisioning/index.ts';

/** The content of first-run.json, which the first start writes for its operator with mode 0600. */
export interface FirstRun {
  url: string;
  email: string;
  password: string;
  api_key: string;
  agent_id: string | null;
}

/** The data with which an interrupted first start continues. The database stores the seed, from which all its ids are derived again. */
interface FirstRunStart {
  seed: string;
  password: string;
}

const SEATS = 100;
const DONE = 'done';
/** The longest time that a replica waits for another one's first run, in ms. */
const OTHERS_MS = 60_000;

/**
 * Creates, on the very first start, an administrator with a plan, an API key, a sample agent, and first-run.json. Every step may be
 * repeated, so that any replica can continue an interrupted first start; of several concurrent ones, one does it. Later starts only update
 * the address in the file. Returns what was created, or null if this was not the first start.
 */
export async function firstRun(commands: CommandBus, database: Database, config: Config, url: string): Promise<FirstRun | null> {
  const installation = new Installation(database);
  const isOver = async () => (await storeAddress(config, url)) && (await installation.getOrSet('first_run', DONE)) === DONE;
  if ((await isOver()) || (await installation.read('first_run')) === DONE) return null;
  return installation.withLock(async () => {
    // Another replica may have done it meanwhile.
    if ((await isOver()) || (await installation.read('first_run')) === DONE) return null;
    return firstRunLocked(commands, installation, config, url);
  }, OTHERS_MS);
}

/** Returns whether first-run.json exists, after updating its address. */
async function storeAddress({ dataDir }: Config, url: string): Promise<boolean> {
  const file = fileIn(dataDir);
  const standing = await readJson<FirstRun>(file);
  if (standing !== null && standing.url !== url) await writeJson(file, { ...standing, url });
  return standing !== null;
}

async function firstRunLocked(commands: CommandBus, installation: Installation, config: Config, url: string): Promise<FirstRun | null> {
  const begunFile = join(config.dataDir, 'first-run.begun.json');
  const known = await readJson<FirstRunStart>(begunFile);
  const begun: FirstRunStart = {
    seed: await installation.getOrSet('first_run_seed', known?.seed ?? randomUUID()),
    password: known?.password ?? config.adminPassword ?? base62(randomBytes(18)),
  };
  await writeJson(begunFile, begun);
  const made = await open(commands, config, begun);
  if (made !== null) await writeJson(fileIn(config.dataDir), { url, email: config.adminEmail, password: begun.password, ...made });
  await installation.getOrSet('first_run', DONE);
  await rm(begunFile, { force: true });
  return made === null ? null : { url, email: config.adminEmail, password: begun.password, ...made };
}

/** Returns null if the database has its administrator already, because its first start used another data folder. */
async function open(
  commands: CommandBus,
  config: Config,
  { seed, password }: FirstRunStart,
): Promise<Pick<FirstRun, 'api_key' | 'agent_id'> | null> {
  const context = systemContext('first-run', null);
  const account = { email: config.adminEmail, password, name: 'Administrator', role: 'admin' as const };
  let accountId: string;
  try {
    ({ account_id: accountId } = await commands.execute(new OpenAccount(context, account, seed)));
  } catch (error) {
    if (error instanceof ProblemError && error.code === 'account_exists') return null;
    throw error;
  }
  const own = { ...context, accountId };
  await commands.execute(new AssignPlan(own, accountId, { name: 'first', seats: SEATS, paymentMethod: true }));
  const key = { name: 'first-run', scopes: [...scopes], expiresInDays: null };
  const { rawKey } = await commands.execute(new IssueApiKey(own, accountId, key, seed));
  if (!config.sampleAgent) return { api_key: rawKey, agent_id: null };
  const { agentId } = await commands.execute(new Provision(own, accountId, { name: 'hello', templateId: 'hello' }, seed));
  return { api_key: rawKey, agent_id: agentId };
}

const fileIn = (dataDir: string) => join(dataDir, 'first-run.json');

async function readJson<T>(path: string): Promise<T | null> {
  const text = await readIfExists(path);
  return text === null ? null : (JSON.parse(text) as T);
}

function writeJson(path: string, value: object): Promise<void> {
  return writeAtomically(path, `${JSON.stringify(value, null, 2)}\n`, 0o600);
}
