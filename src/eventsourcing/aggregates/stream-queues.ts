import { ProblemError } from '../../kernel/errors/problem-error.ts';

const WAITING_MAX = 1_000;

interface Queue {
  last: Promise<unknown>;
  length: number;
}

/** Runs work on the same stream one after another, so that writers within this process do not conflict. */
export class StreamQueues {
  private readonly queues = new Map<string, Queue>();

  /**
   * Runs the work after all earlier work on the stream. Throws ProblemError `event_store_unavailable` if 1 000 are already waiting for the
   * stream.
   */
  async run<T>(stream: string, work: () => Promise<T>): Promise<T> {
    const queue = this.queues.get(stream) ?? { last: Promise.resolve(), length: 0 };
    if (queue.length >= WAITING_MAX)
      throw new ProblemError('event_store_unavailable', 'Too many commands for this resource are waiting.', { retryAfterSeconds: 1 });
    this.queues.set(stream, queue);
    queue.length += 1;
    const result = queue.last.then(work);
    queue.last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      queue.length -= 1;
      if (queue.length === 0) this.queues.delete(stream);
    }
  }
}
