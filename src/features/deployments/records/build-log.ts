/*
 * Writes the build log of one deployment, in chunks, to the stream `deployment-<id>`.
 *
 * It owns the lines that are not stored yet and the end of the stream. It does not own what is secret (redaction.ts, build-secrets.ts) or
 * how logs are read by callers.
 *
 * Invariants:
 * B1. No line contains a known secret: lines are redacted first and truncated afterwards, because half a secret would not be recognized. If
 *     the secrets are not known, no line is shown.
 * B2. Lines are stored in order, and each once: chunks are appended one after the other at the expected revision, with an id derived from
 *     it, so a chunk whose outcome is unknown is written again without harm.
 * B3. A log is bounded: LINES_MAX lines, of LINE_CHARACTERS_MAX each. A chunk is written when it is full or CHUNK_WAIT_MS old.
 * B4. `line` never waits and never fails; `flush` waits for all lines and reports a failure.
 */

import { v5 as uuidv5 } from 'uuid';

import { EventStore, OutcomeUnknown, WrongExpectedRevision, type NewEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { buildLogStream, bytesOf } from './build-log-reading.ts';
import { Redaction } from './redaction.ts';

const NAMESPACE = 'a3a5c0de-2f0b-4f3e-9a2b-6c1d2e3f4a5b';
const CHUNK_LINES = 100;
/** B3: a chunk is written from this size on, in bytes of JSON. A line of control characters or non-Latin text takes up to 24 KB. */
const CHUNK_BYTES = 262_144;
const CHUNK_WAIT_MS = 500;
const LINE_CHARACTERS_MAX = 4_000;
const MESSAGE_CHARACTERS_MAX = 500;
/** B3: the most lines in the log of one deployment. Further lines are dropped. */
const LINES_MAX = 20_000;
const ATTEMPTS_MAX = 5;
/** The end of a stream: its revision, -1 if it is empty, and the number of lines in it. */
interface StreamEnd {
  revision: number;
  lines: number;
}

/** Writes the build log of one deployment to the stream `deployment-<id>`, in chunks. It continues where an earlier process stopped. */
export class BuildLog {
  private waiting: string[] = [];
  private waitingBytes = 0;
  private count = 0;
  private writing: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  /** The end of the stream. It is read at the first line, so that `flush` need not wait for it. */
  private streamEnd: Promise<StreamEnd> | null = null;
  private readonly redaction: Redaction;

  constructor(
    private readonly events: EventStore,
    private readonly deployment: { id: string; agentId: string; accountId: string },
    /** B1: null if the secrets are not known. */
    secrets: readonly string[] | null,
  ) {
    this.redaction = new Redaction(secrets);
  }

  readonly line = (text: string): void => {
    this.count += 1;
    if (this.count > LINES_MAX) return;
    this.streamEnd ??= this.startReadingEnd();
    const told = this.count === LINES_MAX ? 'The log is too long; the rest of it is not kept.' : text;
    const shown = this.shown(told);
    this.waiting.push(shown);
    this.waitingBytes += bytesOf(shown);
    if (this.waiting.length >= CHUNK_LINES || this.waitingBytes >= CHUNK_BYTES) this.write();
    else this.timer ??= setTimeout(() => this.write(), CHUNK_WAIT_MS);
  };

  /** Returns a line as the log shows it. */
  shown(text: string): string {
    // B1
    return this.redaction.redact(text).slice(0, LINE_CHARACTERS_MAX);
  }

  /** Returns the text of a message as the log would show it, 500 characters at most. */
  redacted(text: string): string {
    return this.redaction.redact(text).slice(0, MESSAGE_CHARACTERS_MAX);
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
    // B4: `flush` reports the failure.
    this.writing.catch(() => undefined);
  }

  private async append(lines: string[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const place = await (this.streamEnd ??= this.startReadingEnd());
        const expected = place.revision < 0 ? ('no_stream' as const) : place.revision;
        const { revision } = await this.events.append(buildLogStream(this.deployment.id), expected, [this.event(place, lines)]);
        this.streamEnd = Promise.resolve({ revision, lines: place.lines + lines.length });
        return;
      } catch (error) {
        // B2: after an unknown outcome, the same event is written again at the same revision.
        const isUnknown = error instanceof OutcomeUnknown;
        if (!isUnknown) this.streamEnd = null;
        if (attempt === ATTEMPTS_MAX || !(isUnknown || error instanceof WrongExpectedRevision)) throw error;
      }
    }
  }

  private startReadingEnd(): Promise<StreamEnd> {
    const reading = this.readStreamEnd();
    // The next chunk reports the failure.
    reading.catch(() => undefined);
    return reading;
  }

  private async readStreamEnd(): Promise<StreamEnd> {
    for await (const { revision, data } of this.events.readStream(buildLogStream(this.deployment.id), { backwards: true, limit: 1 })) {
      const last = data as { first_line: number; lines: string[] };
      return { revision, lines: last.first_line + last.lines.length };
    }
    return { revision: -1, lines: 0 };
  }

  private event(place: StreamEnd, lines: string[]): NewEvent {
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
