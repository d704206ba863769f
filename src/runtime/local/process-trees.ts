import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { pause } from '../../kernel/async/pause.ts';
import { RuntimeUnavailable } from '../runtime.errors.ts';
import { liveness, markOf, signalProcess, type ProcessMark } from './processes.ts';

/** The number of passes over a tree: a process may have started another one during a pass. */
const SCANS_MAX = 5;
const END_MS_MAX = 15_000;
const END_AGAIN_MS = 10;
/** Most kernels list the children of each thread. On others, all processes of the machine are read. */
const LISTS_CHILDREN = existsSync(`/proc/${process.pid}/task/${process.pid}/children`);

/** Returns whether the process is a supervisor that keeps commands. */
export function isKeeper(pid: number): boolean {
  try {
    const [program = '', word] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return /supervisor-[a-z0-9]+$/.test(program) && word === 'keep';
  } catch {
    return false;
  }
}

/**
 * Signals the process and all its descendants, in any session. No process in a keeper's tree can leave it. If processes can't be listed,
 * signals nothing.
 */
export function signalTree(root: number, signal: 'SIGSTOP' | 'SIGCONT'): void {
  const known = new Set<string>();
  for (let look = 0; look < SCANS_MAX; look += 1) {
    const found = treeOf(root).filter(({ pid, identity }) => !known.has(`${pid} ${identity}`));
    if (found.length === 0) return;
    for (const mark of found) {
      known.add(`${mark.pid} ${mark.identity}`);
      signalProcess(mark, signal, 'process');
    }
  }
}

/** Kills the process and all its descendants. All are stopped first, so that none can escape meanwhile. */
export function killTree(root: ProcessMark): void {
  if (liveness(root) === 'gone') return;
  signalTree(root.pid, 'SIGSTOP');
  for (const mark of treeOf(root.pid)) signalProcess(mark, 'SIGKILL', 'process');
}

/** Kills a keeper, whose children then kill their own descendants, and waits until all have ended. Throws `RuntimeUnavailable`. */
export async function endTree(root: number): Promise<void> {
  const members = treeOf(root);
  signalTree(root, 'SIGCONT');
  signalProcess(members[0] ?? null, 'SIGKILL', 'process');
  const end = performance.now() + END_MS_MAX;
  while (members.some((mark) => liveness(mark) !== 'gone')) {
    if (performance.now() > end) throw new RuntimeUnavailable(new Error('the commands of an agent do not end'));
    for (const mark of members.slice(1)) if (liveness(mark) === 'stopped') signalProcess(mark, 'SIGCONT', 'process');
    await pause(END_AGAIN_MS);
  }
}

/** Returns the process and its descendants, from the top. */
export function treeOf(root: number, tellsChildren = LISTS_CHILDREN): ProcessMark[] {
  if (process.platform !== 'linux') return [];
  return descendantsAndSelf(root, tellsChildren ? listedChildren : scannedChildren())
    .map((pid) => markOf(pid))
    .filter(({ identity }) => identity !== undefined);
}

function descendantsAndSelf(root: number, childrenOf: (pid: number) => readonly number[]): number[] {
  const pids = new Set([root]);
  for (const pid of pids) for (const child of childrenOf(pid)) pids.add(child);
  return [...pids];
}

/** Reads the children of all threads of the process from the kernel. */
function listedChildren(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) => childrenOfThread(pid, thread));
  } catch {
    return [];
  }
}

function childrenOfThread(pid: number, thread: string): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Reads all processes of the machine, and returns a function that finds the children of each. */
function scannedChildren(): (pid: number) => readonly number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    const parent = parentOf(name);
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  return (pid) => children.get(pid) ?? [];
}

function parentOf(pid: string): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return null;
  }
}
