import type { Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { call, ignoring } from '../engine/engine.ts';

/** The time that the container has to read its variables after its start, in ms. */
const READ_MS = 10_000;

/**
 * Starts the container, whose first process waits for the variables on its standard input and ends if they are incomplete, such as after
 * this process was killed. Returns false if the container had been started already, perhaps by a process that was killed.
 */
export async function startContainer(container: Dockerode.Container, variables: Buffer): Promise<boolean> {
  const options = { stream: true, stdin: true, hijack: true };
  const input = (await call(container.id, (abortSignal) => container.attach({ ...options, abortSignal }))) as Duplex;
  // A failed write to a container that does not read is ignored, because the end of the container shows it.
  input.on('error', () => undefined);
  try {
    const started = call(container.id, (abortSignal) => container.start({ abortSignal }));
    const isOurs = (await started.then(() => true, ignoring(304))) === true;
    input.resume();
    // Only the process that started it sends the variables. The engine may report to two processes that they started it, and a checksum
    // reveals mixed input.
    // The input ends when the first of them closes its end, so the others keep theirs open.
    if (isOurs) await finished(input.end(variables), { readable: false, signal: timeoutSignal(READ_MS) }).catch(() => undefined);
    setTimeout(() => input.destroy(), READ_MS).unref();
    return isOurs;
  } catch (error) {
    input.destroy();
    throw error;
  }
}
