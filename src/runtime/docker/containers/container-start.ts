import type { Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { call, ignoring } from '../engine/engine.ts';

/** The time that the container has to read its variables once it runs, ms. */
const READ_MS = 10_000;

/**
 * Starts the container, whose first process waits for the variables on its standard input and ends if they do not come whole, such as when this
 * process is killed in between. Returns false if it had been started, by somebody who may have been killed.
 */
export async function startContainer(container: Dockerode.Container, variables: Buffer): Promise<boolean> {
  const options = { stream: true, stdin: true, hijack: true };
  const input = (await call(container.id, (abortSignal) => container.attach({ ...options, abortSignal }))) as Duplex;
  // A write to a container that does not read is no error: its end tells.
  input.on('error', () => undefined);
  try {
    const started = call(container.id, (abortSignal) => container.start({ abortSignal }));
    const isOurs = (await started.then(() => true, ignoring(304))) === true;
    input.resume();
    // Only who started it says the variables; the engine may tell two who start it at once that they did, and a sum shows when what they say is mixed.
    // The input ends with the first one who lets go of it, so the others hold on to theirs.
    if (isOurs) await finished(input.end(variables), { readable: false, signal: timeoutSignal(READ_MS) }).catch(() => undefined);
    setTimeout(() => input.destroy(), READ_MS).unref();
    return isOurs;
  } catch (error) {
    input.destroy();
    throw error;
  }
}
