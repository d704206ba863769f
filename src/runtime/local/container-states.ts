import { pause } from '../../kernel/async/pause.ts';
import type { ContainerState } from '../container.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import type { LocalContainer } from './local-container.ts';

/** Returns the state of the container. Throws `RuntimeRefused` unless it is one of these. */
export async function expectState(container: LocalContainer, states: ContainerState[]): Promise<ContainerState> {
  const { state } = await container.view();
  if (!states.includes(state)) throw new RuntimeRefused(`the container is ${state}`);
  return state;
}

/** Returns false if the container is in none of the states within the time (ms). */
export async function reaches(container: LocalContainer, states: ContainerState[], withinMs: number): Promise<boolean> {
  return becomes(async () => states.includes((await container.view()).state), withinMs);
}

/** Checks at once, and then every few milliseconds, since processes react to signals within one or two. */
export async function becomes(condition: () => boolean | Promise<boolean>, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs;
  for (let wait = 2; ; wait = Math.min(wait * 2, 50)) {
    if (await condition()) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await pause(Math.min(wait, left));
  }
}
