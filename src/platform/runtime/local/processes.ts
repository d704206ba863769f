import { whoIs } from './process-identity.mjs';

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
