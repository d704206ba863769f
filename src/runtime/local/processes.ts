import { readdirSync, readFileSync } from 'node:fs';
import { whoIs } from './process-identity.mjs';

/** The number of passes over a session: a process may have started another one during a pass. */
const SCANS_MAX = 5;

/** Identifies a process, as distinct from a later one with the same pid. */
export interface ProcessMark {
  pid: number;
  /** The value is absent if the process ended before it could be read. */
  identity?: string;
}

export type Liveness = 'running' | 'stopped' | 'gone';

export function liveness(mark: ProcessMark | null): Liveness {
  if (mark?.identity === undefined) return 'gone';
  const who = whoIs(mark.pid);
  if (who === null || who.identity !== mark.identity) return 'gone';
  return who.stopped ? 'stopped' : 'running';
}

/** Returns the mark of this service's process, for records that outlive it. */
export function ownMark(): ProcessMark {
  return markOf(process.pid);
}

export function markOf(pid: number): ProcessMark {
  return { pid, identity: whoIs(pid)?.identity };
}

/** Signals the process, or its whole group, but never another process that got the same pid. */
export function signalProcess(mark: ProcessMark | null, signal: NodeJS.Signals, whom: 'process' | 'group'): void {
  if (mark === null || liveness(mark) === 'gone') return;
  try {
    process.kill(whom === 'group' ? -mark.pid : mark.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/**
 * Kills every process of the session that the process with this pid leads or led: a shell gives each of its jobs a group of its own. If
 * sessions can't be listed, kills the group.
 */
export function killSession(pid: number): void {
  for (let look = 0; look < SCANS_MAX; look += 1) {
    const members = process.platform === 'linux' ? membersOf(pid) : look === 0 ? [-pid] : [];
    if (members.length === 0) return;
    for (const member of members) {
      try {
        process.kill(member, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }
}

/** Returns the processes that were started with this variable; none if the environment of processes can't be read. */
export function pidsWith(variable: string, value: string): number[] {
  if (process.platform !== 'linux') return [];
  return pidsThat((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${variable}=${value}`));
}

/** Returns the processes of the session, without those that have ended. */
function membersOf(session: number): number[] {
  return pidsThat((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state = '', , , inSession] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(inSession) === session && !/[ZX]/.test(state);
  });
}

/** Returns the processes that meet the condition. A process that can't be read, because it is another user's or has ended, is left out. */
function pidsThat(condition: (pid: number) => boolean): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return condition(pid);
    } catch {
      return false;
    }
  });
}
