import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants as files } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import { killGroup } from '../../kernel/kill-group.ts';

const STDERR_BYTES_MAX = 8_192;
const PATH_DEFAULT = '/usr/bin:/bin';
/** The exit code of a shell that does not find the program. */
const NOT_FOUND = 127;
/** The exit code of a program that a signal ended, as a shell tells it, less the signal's number. */
export const ENDED_BY_SIGNAL = 128;
/** The unit of a shell's limit on the size of files, bytes. */
const FILE_BLOCK_BYTES = 512;

export interface GitCall {
  args: readonly string[];
  /**
   * The words of a second call of Git, which runs if the first has succeeded. A shell of its own would take longer to start than a small
   * call takes. They hold nothing of a caller, since the shell parses them.
   */
  second?: string;
  directory: string;
  /** Configuration for this call alone, besides the closed one. */
  settings: Record<string, string>;
  /** The one protocol that Git may speak. */
  protocol: 'http' | 'file';
  limits: GitLimits;
  /** Kills Git and all that it started when it aborts. The call then throws the signal's reason. */
  signal: AbortSignal;
  /** Reads the output of both calls; Git ends if nobody does. */
  read: (stdout: Readable) => Promise<void>;
}

export interface GitLimits {
  /** The most bytes in one file that Git writes. */
  fileBytesMax: number;
  memoryBytesMax: number;
  cpuSecondsMax: number;
}

export interface GitResult {
  /** The exit code of the call that ran last; more than 128 if a signal ended it or Git was called wrongly. */
  exitCode: number;
  /** The end of the messages. */
  stderr: string;
}

/** This machine has no `git`. */
export class GitMissing extends Error {}

/** Returns true if this machine has the program `git`, without running it. */
export async function hasGit(): Promise<boolean> {
  const folders = searchPath().split(':');
  const found = await Promise.allSettled(folders.map((folder) => access(join(folder, 'git'), files.X_OK)));
  return found.some(({ status }) => status === 'fulfilled');
}

const searchPath = () => process.env.PATH ?? PATH_DEFAULT;

/** Settings of each call: no hooks, filters, maintenance or replaced objects, and little memory for big files. */
const lockedSettings = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.attributesFile': '/dev/null',
  // The repository is removed after the fetch, so that nothing of it has to survive a crash.
  'core.fsync': 'none',
  'core.bigFileThreshold': '16m',
  'core.packedGitWindowSize': '32m',
  'core.packedGitLimit': '256m',
  'credential.helper': '',
  'fetch.unpackLimit': '1',
  'fetch.recurseSubmodules': 'false',
  'fetch.writeCommitGraph': 'false',
  'gc.auto': '0',
  'http.followRedirects': 'false',
  'maintenance.auto': 'false',
  'pack.threads': '1',
  'protocol.allow': 'never',
  'transfer.bundleURI': 'false',
};

/** The environment is closed: neither the operator's configuration nor credentials of this machine are visible to Git. */
function environmentOf({ directory, settings, protocol }: GitCall): Record<string, string> {
  const all = Object.entries({
    ...lockedSettings,
    [`protocol.${protocol}.allow`]: 'always',
    ...settings,
  });
  const configuration = all.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ]);
  return {
    PATH: searchPath(),
    HOME: directory,
    LC_ALL: 'C',
    GIT_DIR: directory,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'true',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_CONFIG_COUNT: `${all.length}`,
    ...Object.fromEntries(configuration),
  };
}

/** The limits hold after a crash of this process, too. The machine may lack one of them. */
const limitedShell = 'ulimit -c 0; ulimit -f "$1"; ulimit -v "$2" 2>/dev/null; ulimit -t "$3"; shift 3; git "$@"';

/** Runs Git in a process group of its own, with a closed environment and limits. Throws `GitMissing` and the signal's reason. */
export async function runGit(call: GitCall): Promise<GitResult> {
  const { args, directory, limits, signal, read } = call;
  signal.throwIfAborted();
  const numbers = [limits.fileBytesMax / FILE_BLOCK_BYTES, limits.memoryBytesMax / 1024, limits.cpuSecondsMax];
  const script = call.second === undefined ? limitedShell : `${limitedShell} && exec git ${call.second}`;
  const child = spawn('/bin/sh', ['-c', script, 'git', ...numbers.map((n) => `${Math.ceil(n)}`), ...args], {
    cwd: directory,
    env: environmentOf(call),
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const kill = () => killGroup(child.pid);
  signal.addEventListener('abort', kill, { once: true });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-STDERR_BYTES_MAX)));
  try {
    // If the reader of the output fails, Git is not needed any more.
    const reading = read(child.stdout).catch((error: unknown) => {
      kill();
      throw error;
    });
    const [[code, name]] = await Promise.all([once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>, reading]);
    signal.throwIfAborted();
    if (code === NOT_FOUND) throw new GitMissing();
    return { exitCode: code ?? ENDED_BY_SIGNAL + (name === null ? 0 : constants.signals[name]), stderr };
  } finally {
    signal.removeEventListener('abort', kill);
    kill();
  }
}
