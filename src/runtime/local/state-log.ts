import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerState, Transition } from '../container.ts';
import { isMissing, writeText } from './atomic-file.ts';

/** The file of a container to which the supervisor appends starts and ends, and the service freezes and thaws. */
export const STATE_LOG = 'states.jsonl';
const LINES_MAX = 256;

/** Appends that the container is about to change to the state. */
export async function addState(folder: string, state: ContainerState): Promise<void> {
  await appendFile(join(folder, STATE_LOG), lineOf({ state, at: new Date().toISOString() }), { mode: 0o600 });
}

export async function statesSince(folder: string, since: string): Promise<Transition[]> {
  const from = Date.parse(since);
  return (await read(folder)).filter(({ at }) => Date.parse(at) >= from);
}

/** Removes old changes. No process appends any at the time, because the container does not run. */
export async function trimStates(folder: string): Promise<void> {
  const states = await read(folder);
  if (states.length > LINES_MAX) await writeText(join(folder, STATE_LOG), states.slice(-LINES_MAX).map(lineOf).join(''));
}

const lineOf = (change: Transition): string => `${JSON.stringify(change)}\n`;

async function read(folder: string): Promise<Transition[]> {
  try {
    const lines = (await readFile(join(folder, STATE_LOG), 'utf8')).split('\n');
    return lines.flatMap((line) => parsed(line) ?? []);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Returns null for a line that a power loss has left incomplete. */
function parsed(line: string): Transition | null {
  try {
    return JSON.parse(line) as Transition;
  } catch {
    return null;
  }
}
