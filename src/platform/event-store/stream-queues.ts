import { Refusal } from '../refusal.ts';

const maxWaiting = 1_000;

interface Queue {
  last: Promise<unknown>;
  length: number;
}

/** Lets work on the same stream run one after another, so that the writers of this process don't fight over it. */
export class StreamQueues {
  readonly #queues = new Map<string, Queue>();

  /** Throws Refusal `event_store_unavailable` where 1 000 wait for the stream already. */
  async run<T>(stream: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(stream) ?? { last: Promise.resolve(), length: 0 };
    if (queue.length >= maxWaiting)
      throw new Refusal('event_store_unavailable', 'Too many commands wait for the same thing.', { retryAfterSeconds: 1 });
    this.#queues.set(stream, queue);
    queue.length += 1;
    const result = queue.last.then(work);
    queue.last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      queue.length -= 1;
      if (queue.length === 0) this.#queues.delete(stream);
    }
  }
}
