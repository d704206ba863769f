import { whoIs } from './process-identity.mjs';

/** A process, told apart from a later one with the same pid. */
export interface ProcessMark {
  pid: number;
  /** Missing where the process ended before anyone could look. */
  identity?: string;
}

export type Liveness = 'running' | 'stopped' | 'gone';

export function liveness(mark: ProcessMark | null): Liveness {
  if (mark?.identity === undefined) return 'gone';
  const who = whoIs(mark.pid);
  if (who === null || who.identity !== mark.identity) return 'gone';
  return who.stopped ? 'stopped' : 'running';
}

/** What the process of this service is called in records that outlive it. */
export function ownMark(): ProcessMark {
  return markOf(process.pid);
}

export function markOf(pid: number): ProcessMark {
  return { pid, identity: whoIs(pid)?.identity };
}

/** Signals the process, or its whole group; never one that merely got its pid. */
export function signalProcess(mark: ProcessMark | null, signal: NodeJS.Signals, whom: 'process' | 'group'): void {
  if (mark === null || liveness(mark) === 'gone') return;
  try {
    process.kill(whom === 'group' ? -mark.pid : mark.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
