import type Dockerode from 'dockerode';
import type { ContainerHandle, ContainerState, Transition } from '../../container.ts';
import { call, jsonLines } from '../engine/engine.ts';
import { noteOversized } from '../engine/oversized.ts';

const states: Record<string, ContainerState> = { start: 'running', unpause: 'running', pause: 'frozen', die: 'exited' };
/** The engine's times are in nanoseconds, and this clock has only whole ms. */
const CLOCK_MS = 2;

interface EngineEvent {
  Action: string;
  timeNano: number;
}

/** Returns the changes of a container that the engine remembers (see `ContainerRuntime.transitions`): those among its last 256 events. */
export async function transitionsOf(docker: Dockerode, handle: ContainerHandle, since: string): Promise<Transition[]> {
  const filters = JSON.stringify({ type: ['container'], container: [handle], event: Object.keys(states) });
  return call(null, async (abortSignal) => {
    const span = { since: seconds(Date.parse(since)), until: seconds(Date.now() + CLOCK_MS) };
    const stream = await docker.getEvents({ ...span, filters, abortSignal });
    const found: Transition[] = [];
    for await (const event of jsonLines<EngineEvent>(stream as AsyncIterable<Buffer>, () => noteOversized(docker, 'events'))) {
      const state = states[event.Action];
      if (state !== undefined) found.push({ state, at: new Date(event.timeNano / 1e6).toISOString() });
    }
    return found;
  });
}

const seconds = (ms: number): number => Number((ms / 1_000).toFixed(3));
