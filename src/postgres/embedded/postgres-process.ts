import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';

import { pause } from '../../kernel/async/pause.ts';

/** The state that a running server reports in its data directory. */
export interface Postmaster {
  pid: number;
  port: number;
  ready: boolean;
}

/** Reads postmaster.pid, whose lines are: process id, data directory, start time, port, socket folder, address, shared memory, state. */
export function readPostmaster(cluster: string): Postmaster | undefined {
  const lines = readText(join(cluster, 'postmaster.pid'))?.split('\n');
  const pid = Number(lines?.[0]);
  if (!lines || !Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, port: Number(lines[3] ?? 0), ready: lines[7]?.trim() === 'ready' };
}

/**
 * Returns whether the process is a postgres that runs on this (real) directory. A process id alone proves nothing, because the system
 * reuses ids.
 */
export function isPostgresOn(cluster: string, pid: number): boolean {
  if (process.platform === 'linux') {
    // A program replaced on disk while it runs is shown as "postgres (deleted)".
    const program = basename(readLink(`/proc/${pid}/exe`) ?? '').split(' ')[0];
    return program === 'postgres' && readLink(`/proc/${pid}/cwd`) === cluster;
  }
  const command = readPs(pid, 'command') ?? '';
  return command.includes('postgres') && command.includes(`-D ${cluster} `);
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Returns the time at which a process started, in the system's own format; together with the id it identifies one process. Returns
 * undefined if there is no such process, or only a zombie.
 */
export function startedAt(pid: number): string | undefined {
  if (process.platform !== 'linux') return readPs(pid, 'lstart');
  // The second field is the program's name in brackets and may contain spaces, so fields are counted after it.
  const fields = readText(`/proc/${pid}/stat`)?.split(') ').pop()?.split(' ');
  return fields?.[0] === 'Z' || fields?.[0] === 'X' ? undefined : fields?.[19];
}

/** Checks the condition every 10 ms until it holds; returns false if it did not hold in time. */
export async function waitUntil(condition: () => boolean, withinMs: number): Promise<boolean> {
  const deadline = Date.now() + withinMs;
  while (!condition()) {
    if (Date.now() > deadline) return false;
    await pause(10);
  }
  return true;
}

/** Stops the server. SIGINT is PostgreSQL's fast shutdown. Stronger signals follow only if it has no effect in time. */
export async function endPostgres(cluster: string, pid: number): Promise<void> {
  const steps: [NodeJS.Signals, number][] = [
    ['SIGINT', 30_000],
    ['SIGQUIT', 5_000],
    ['SIGKILL', 5_000],
  ];
  for (const [signal, patience] of steps) {
    if (!isPostgresOn(cluster, pid)) return;
    signalQuietly(pid, signal);
    if (await waitUntil(() => !isPostgresOn(cluster, pid), patience)) return;
  }
  throw new Error(`PostgreSQL (process ${pid}) on ${cluster} does not end`);
}

/**
 * Kills the processes that a killed server left on this (real) directory. As a rule they end by themselves, but one that waits for a lock
 * of another process that died never does, and no server starts while it has the shared memory. They are found on Linux only.
 */
export function killOrphans(cluster: string): void {
  const pids = process.platform === 'linux' ? readdirSync('/proc').map(Number) : [];
  for (const pid of pids) if (pid > 0 && isPostgresOn(cluster, pid)) signalQuietly(pid, 'SIGKILL');
}

export function signalQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function readPs(pid: number, field: string): string | undefined {
  try {
    return execFileSync('ps', ['-ww', '-o', `${field}=`, '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
