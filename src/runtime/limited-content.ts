import type { Readable } from 'node:stream';
import { timeoutSignal } from '../kernel/async/timeout-signal.ts';
import { FileRefused, type FileWriteOptions } from './files.ts';

/**
 * Yields the content of a file that is being written. Throws `FileRefused` as soon as it exceeds the limit of the file or the free space of
 * the volume, and the signal's reason if that aborts, even while it waits for a chunk.
 */
export async function* limitedContent(
  content: Readable,
  { maxBytes, reserve }: Pick<FileWriteOptions, 'maxBytes' | 'reserve'>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const stop = () => content.destroy(signal.reason as Error);
  signal.throwIfAborted();
  signal.addEventListener('abort', stop, { once: true });
  let size = 0;
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw new FileRefused('too_large');
      if (reserve !== null && !(await reserve(chunk.length))) throw new FileRefused('volume_full');
      yield chunk;
    }
    signal.throwIfAborted();
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Returns a signal that aborts with the given one, or after that time (ms). */
export function within(timeMs: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, timeoutSignal(timeMs)]);
}
