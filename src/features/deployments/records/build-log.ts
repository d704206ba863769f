import { v5 as uuidv5 } from 'uuid';

import { EventStore, OutcomeUnknown, WrongExpectedRevision, type NewEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { buildLogStream, bytesOf } from './build-log-reading.ts';
import { Redaction } from './redaction.ts';

const NAMESPACE = 'a3a5c0de-2f0b-4f3e-9a2b-6c1d2e3f4a5b';
const CHUNK_LINES = 100;
/** The size from which a chunk is written, in bytes of JSON: a line of control characters or of other scripts has up to 24 KB. */
const CHUNK_BYTES = 262_144;
const CHUNK_WAIT_MS = 500;
const LINE_CHARACTERS_MAX = 4_000;
const MESSAGE_CHARACTERS_MAX = 500;
/** The largest number of lines in the log of one deployment; further lines are dropped. */
const LINES_MAX = 20_000;
const TRIES = 5;
/** The end of a stream: its revision, -1 if it is empty, and the number of lines in it. */
interface Place {
  revision: number;
  lines: number;
}

/** Writes the build log of one deployment to the stream `deployment-<id>`, in chunks. Continues where an earlier process ended. */
export class BuildLog {
  private waiting: string[] = [];
  private waitingBytes = 0;
  private count = 0;
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  /** The end of the stream. It is read at the first line, so that nobody waits for it when a short log is written at the end of the work. */
  private place: Promise<Place> | null = null;
  private readonly redaction: Redaction;

  constructor(
    private readonly events: EventStore,
    private readonly deployment: { id: string; agentId: string; accountId: string },
    /** The value is null if the secrets are not known, so that no line is shown. */
    secrets: readonly string[] | null,
  ) {
    this.redaction = new Redaction(secrets);
  }

  readonly line = (text: string): void => {
    this.count += 1;
    if (this.count > LINES_MAX) return;
    this.place ??= this.read();
    const told = this.count === LINES_MAX ? 'The log is too long; the rest of it is not kept.' : text;
    // The text is truncated last, because half a secret would not be recognized.
    const shown = this.redaction.of(told).slice(0, LINE_CHARACTERS_MAX);
    this.waiting.push(shown);
    this.waitingBytes += bytesOf(shown);
    if (this.waiting.length >= CHUNK_LINES || this.waitingBytes >= CHUNK_BYTES) this.write();
    else this.timer ??= setTimeout(() => this.write(), CHUNK_WAIT_MS);
  };

  /** Returns the text of a message as the log would show it, 500 characters at most. */
  redacted(text: string): string {
    return this.redaction.of(text).slice(0, MESSAGE_CHARACTERS_MAX);
  }

  /** Resolves when every line so far is in the log. */
  async flush(): Promise<void> {
    this.write();
    const writing = this.writing;
    this.writing = Promise.resolve();
    await writing;
  }

  private write(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const lines = this.waiting;
    this.waiting = [];
    this.waitingBytes = 0;
    if (lines.length === 0) return;
    this.writing = this.writing.then(() => this.append(lines));
    // `flush` reports the failure.
    this.writing.catch(() => undefined);
  }

  private async append(lines: string[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const place = await (this.place ??= this.read());
        const expected = place.revision < 0 ? ('no_stream' as const) : place.revision;
        const { revision } = await this.events.append(buildLogStream(this.deployment.id), expected, [this.event(place, lines)]);
        this.place = Promise.resolve({ revision, lines: place.lines + lines.length });
        return;
      } catch (error) {
        // After an unknown outcome the same event is written at the same place again.
        const isUnknown = error instanceof OutcomeUnknown;
        if (!isUnknown) this.place = null;
        if (attempt === TRIES || !(isUnknown || error instanceof WrongExpectedRevision)) throw error;
      }
    }
  }

  private read(): Promise<Place> {
    const reading = this.lastPlace();
    // The next chunk reports the failure.
    reading.catch(() => undefined);
    return reading;
  }

  private async lastPlace(): Promise<Place> {
    for await (const { revision, data } of this.events.readStream(buildLogStream(this.deployment.id), { backwards: true, limit: 1 })) {
      const last = data as { first_line: number; lines: string[] };
      return { revision, lines: last.first_line + last.lines.length };
    }
    return { revision: -1, lines: 0 };
  }

  private event(place: Place, lines: string[]): NewEvent {
    const { id, agentId, accountId } = this.deployment;
    const actor = { kind: 'system' as const, id: 'deployments', name: 'deployments' };
    return {
      id: uuidv5(`${id}:${place.revision + 1}:${lines.length}:${lines[0] ?? ''}`, NAMESPACE),
      type: 'BuildLogCaptured',
      schemaVersion: 1,
      data: { agent_id: agentId, first_line: place.lines, lines },
      metadata: { actor, account_id: accountId, request_id: null, causation_id: id, ip: null },
    };
  }
}
