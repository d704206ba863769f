import {
  EventStoreUnavailable,
  OutcomeUnknown,
  type AppendResult,
  type EventStore,
  type ExpectedRevision,
  type NewEvent,
} from '../../../src/eventsourcing/event-store/event-store.ts';
import { newEvents } from '../event-store-contract.ts';
import { span } from '../until.ts';

/** Appends like `Aggregates`, but without a limit: it repeats the same call with the same ids until there is a response. */
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

/** Writers, each with its own stream, which run until they are stopped; every response is compared with the expected one. */
export class Writers {
  /** The acknowledged ids of each stream, in order. */
  readonly acknowledged = new Map<string, string[]>();
  /** The longest time (ms) without an acknowledgement since `resetGap`. */
  longestGap = 0;
  private lastAt = performance.now();
  private stopping = false;
  private readonly running: Promise<void[]>;
  private failure: unknown = null;

  constructor(store: EventStore, count: number, name = 'w') {
    this.running = Promise.all(Array.from({ length: count }, (_, writer) => this.write(store, `agent-${name}${writer}`, 1 + (writer % 3))));
    this.running.catch((error: unknown) => (this.failure = error));
  }

  get total(): number {
    return [...this.acknowledged.values()].reduce((sum, ids) => sum + ids.length, 0);
  }

  resetGap(): void {
    this.longestGap = 0;
    this.lastAt = performance.now();
  }

  /** Throws the error that ended a writer: a false conflict, or a wrong revision. */
  check(): void {
    if (this.failure !== null) throw this.failure;
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.running;
  }

  private async write(store: EventStore, stream: string, each: number): Promise<void> {
    const ids: string[] = [];
    this.acknowledged.set(stream, ids);
    for (let revision = -1; !this.stopping;) {
      const events = newEvents(each);
      const result = await appendSurely(store, stream, revision, events);
      revision += each;
      if (result.revision !== revision) throw new Error(`${stream}: acknowledged at ${result.revision}, not ${revision}`);
      ids.push(...events.map(({ id }) => id));
      const now = performance.now();
      this.longestGap = Math.max(this.longestGap, now - this.lastAt);
      this.lastAt = now;
    }
  }
}
