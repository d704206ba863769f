import {
  EventStoreUnavailable,
  OutcomeUnknown,
  type AppendResult,
  type EventStore,
  type ExpectedRevision,
  type NewEvent,
} from '../../../src/platform/event-store/event-store.ts';
import { newEvents } from '../event-store-contract.ts';
import { span } from '../until.ts';

/** As `Aggregates` does it, but for as long as it takes: the same call with the same ids, until there is an answer. */
export async function appendSurely(store: EventStore, stream: string, revision: number, events: NewEvent[]): Promise<AppendResult> {
  const expected: ExpectedRevision = revision < 0 ? 'no_stream' : revision;
  for (;;)
    try {
      return await store.append(stream, expected, events);
    } catch (error) {
      if (!(error instanceof OutcomeUnknown || error instanceof EventStoreUnavailable)) throw error;
      await span(20 + Math.random() * 50);
    }
}

/** Writers of a stream each, until they are stopped; every answer is held against what it has to be. */
export class Writers {
  /** The ids that were acknowledged, in order, by stream. */
  readonly acknowledged = new Map<string, string[]>();
  /** The longest time (ms) without any acknowledgement since `resetGap`. */
  longestGap = 0;
  #lastAt = performance.now();
  #stopping = false;
  readonly #running: Promise<void[]>;
  #failure: unknown = null;

  constructor(store: EventStore, count: number, name = 'w') {
    this.#running = Promise.all(
      Array.from({ length: count }, (_, writer) => this.#write(store, `agent-${name}${writer}`, 1 + (writer % 3))),
    );
    this.#running.catch((error: unknown) => (this.#failure = error));
  }

  get total(): number {
    return [...this.acknowledged.values()].reduce((sum, ids) => sum + ids.length, 0);
  }

  resetGap(): void {
    this.longestGap = 0;
    this.#lastAt = performance.now();
  }

  /** Throws what ended a writer: a conflict that is none, or a wrong revision. */
  check(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#running;
  }

  async #write(store: EventStore, stream: string, each: number): Promise<void> {
    const ids: string[] = [];
    this.acknowledged.set(stream, ids);
    for (let revision = -1; !this.#stopping;) {
      const events = newEvents(each);
      const result = await appendSurely(store, stream, revision, events);
      revision += each;
      if (result.revision !== revision) throw new Error(`${stream}: acknowledged at ${result.revision}, not ${revision}`);
      ids.push(...events.map(({ id }) => id));
      const now = performance.now();
      this.longestGap = Math.max(this.longestGap, now - this.#lastAt);
      this.#lastAt = now;
    }
  }
}
