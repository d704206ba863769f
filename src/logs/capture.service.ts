import { Injectable, Logger } from '@nestjs/common';
import { v5 as uuidv5 } from 'uuid';
import { EventStore, WrongExpectedRevision, type NewEvent } from '../platform/event-store/event-store.ts';
import { ContainerGone, ContainerRuntime, type ContainerView, type LogLine } from '../platform/runtime/runtime.ts';
import type { CaptureCursor, CapturedLine } from './log.events.ts';
import { readLogLine } from './log-line.ts';
import { Batcher } from './batcher.ts';

const CAPTURE_NAMESPACE = '0d3b1c52-94c5-4f6c-8f0c-0e6a4d2b7f1e';
/** Tries to append one batch before the follower gives up; the saga then starts it anew. */
const APPEND_TRIES = 8;
/** Seconds, and events of up to 200 lines: the read model cuts to the exact number of lines (contract 10). */
const RETENTION = { maxAgeSeconds: 7 * 24 * 3600, maxCount: 100_000 };
/** How long the last lines of an ended container are waited for, ms. */
const DRAIN_MS = 5_000;

interface Follower {
  generation: number;
  done: Promise<void>;
  stop: AbortController;
}

interface Place {
  revision: number;
  cursor: CaptureCursor | null;
}

/**
 * Copies containers' output into the log, without loss or repeat: each batch says how far it goes, and is appended at the
 * revision that it continues, so that a follower that starts over after a crash goes on exactly there.
 */
@Injectable()
export class LogCapture {
  private readonly logger = new Logger(LogCapture.name);
  private readonly followers = new Map<string, Follower>();

  constructor(
    private readonly events: EventStore,
    private readonly runtime: ContainerRuntime,
  ) {}

  /** Makes sure that the container's output is being captured. One follower an agent: an older container's is finished first. */
  async follow(container: ContainerView): Promise<void> {
    const current = this.followers.get(container.agentId);
    if (current?.generation === container.generation) return;
    if (current !== undefined) await current.done;
    if (this.followers.has(container.agentId)) return;
    const stop = new AbortController();
    const follower: Follower = { generation: container.generation, stop, done: Promise.resolve() };
    follower.done = this.#capture(container, stop.signal)
      .catch((error: unknown) => {
        if (!(error instanceof ContainerGone) && !stop.signal.aborted)
          this.logger.warn(`log capture of agent ${container.agentId}: ${String(error)}`);
      })
      .finally(() => {
        if (this.followers.get(container.agentId) === follower) this.followers.delete(container.agentId);
      });
    this.followers.set(container.agentId, follower);
  }

  /** Resolves when all that an ended container has written is in the log, or after 5 s: call it before the container is removed. */
  async drain(container: ContainerView): Promise<void> {
    await this.follow(container);
    const follower = this.followers.get(container.agentId);
    if (follower === undefined) return;
    const patience = new AbortController();
    const timeout = AbortSignal.any([patience.signal, AbortSignal.timeout(DRAIN_MS)]);
    const over = new Promise<void>((resolve) => timeout.addEventListener('abort', () => resolve(), { once: true }));
    await Promise.race([follower.done, over]);
    patience.abort();
  }

  /** Ends every follower; what they read is appended first. */
  async stop(): Promise<void> {
    const followers = [...this.followers.values()];
    followers.forEach((follower) => follower.stop.abort());
    await Promise.allSettled(followers.map((follower) => follower.done));
  }

  async #capture(container: ContainerView, signal: AbortSignal): Promise<void> {
    const stream = `log-${container.agentId}`;
    const place = await this.#place(stream);
    if (place.cursor !== null && place.cursor.generation > container.generation) return;
    const after = place.cursor?.generation === container.generation ? place.cursor : null;
    const batcher = new Batcher<LogLine>({
      maxItems: 200,
      maxBytes: 64 * 1024,
      maxWaitMs: 1_000,
      bytesOf: (line) => line.text.length + 40,
    });
    const reading = batcher.fill(this.runtime.logs(container.handle, after, signal));
    for await (const lines of batcher.batches()) await this.#append(stream, place, lines);
    await reading;
  }

  async #place(stream: string): Promise<Place> {
    for await (const last of this.events.readStream(stream, { backwards: true, limit: 1 }))
      return { revision: last.revision, cursor: (last.data as { cursor?: CaptureCursor }).cursor ?? null };
    return { revision: -1, cursor: null };
  }

  async #append(stream: string, place: Place, lines: LogLine[]): Promise<void> {
    const last = lines.at(-1);
    if (last === undefined) return;
    const captured: CapturedLine[] = lines.map(readLogLine);
    const event: NewEvent = {
      id: uuidv5(`${stream}:${place.revision + 1}:${JSON.stringify(last.cursor)}`, CAPTURE_NAMESPACE),
      type: 'LogLinesCaptured',
      schemaVersion: 1,
      data: { lines: captured, cursor: { ...last.cursor } },
      metadata: { actor: { kind: 'system', id: 'logs', name: 'logs' }, account_id: null, request_id: null, causation_id: null, ip: null },
    };
    if (place.revision < 0) await this.events.setRetention(stream, RETENTION);
    place.revision = await this.#appendSurely(stream, place.revision, event);
  }

  /** The same batch, with the same id, until the store has answered. */
  async #appendSurely(stream: string, revision: number, event: NewEvent): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.events.append(stream, revision < 0 ? 'no_stream' : revision, [event])).revision;
      } catch (error) {
        // Another follower went on from the same place: this one is not needed.
        if (error instanceof WrongExpectedRevision || attempt === APPEND_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
      }
    }
  }
}
