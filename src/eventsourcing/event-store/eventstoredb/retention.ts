/**
 * Has EventStoreDB remove old events of `log` streams.
 *
 * Owns: the retention members of a stream's metadata, and what is known of them in memory. Does not own the removal, which the server does
 * when it scavenges.
 *
 * R1  The last event of a stream stays readable, as the port promises, though the server's `$maxAge` hides even that: when it has to be
 *     read, the age is put aside and `$tb` uncovers the event, until the next one is appended.
 * R2  Metadata is replaced as a whole, and each write states the revision that it was made from, so no concurrent change is lost.
 * R3  Events that are hidden in their stream are hidden in reads of the whole log too, where the server still shows them.
 */
import { v4 as uuidv4 } from 'uuid';
import { ErrorType, jsonEvent, type WrongExpectedVersionError } from '@eventstore/db-client';
import { pause } from '../../../kernel/async/pause.ts';
import type { JsonObject } from '../event-definition.ts';
import { EventStoreUnavailable, OutcomeUnknown, StreamClosed, WrongExpectedRevision } from '../event-store.ts';
import { withTimeout, type Connection } from './connection.ts';
import type { Recorded } from './envelope.ts';
import { isOfType } from './faults.ts';
import type { EventReader } from './reading.ts';
import type { Writer } from './writer.ts';

/** The member of the stream's metadata that saves the maximum age while the last event is uncovered. */
const SAVED_AGE_MEMBER = 'mooring_max_age';
/** Intervals in ms. */
const KNOWN_FOR_MS = 30_000;
const FIRST_VISIBLE_FOR_MS = 10_000;
const CALL_TIMEOUT_MS = 4_000;
const KNOWN_STREAMS_MAX = 10_000;
const TRIES_MAX = 8;
const LOOKUPS_AT_ONCE = 16;
/** No stream reaches this revision. An append that expects it is refused, and the refusal contains the real revision. */
const REVISION_BEYOND_ALL = 9_007_199_254_740_991n;

interface Metadata {
  /** The revision of the last event in the metadata stream; -1 if there is none. */
  revision: number;
  content: JsonObject;
}

/** The retention of streams. See R1 to R3. */
export class Retention {
  /** The time at which each stream was last seen without a saved age. */
  private readonly withoutSavedAge = new Map<string, number>();
  private readonly firstVisible = new Map<string, { revision: number; at: number }>();

  constructor(
    private readonly connection: Connection,
    private readonly reader: EventReader,
    private readonly writer: Writer,
  ) {}

  async setAge(stream: string, maxAgeSeconds: number): Promise<void> {
    this.firstVisible.delete(stream);
    await this.change(stream, (content) => ({ ...without(content, '$maxAge', SAVED_AGE_MEMBER), $maxAge: maxAgeSeconds }));
  }

  /** Hides the events before the revision at once; the server removes them when it scavenges. */
  async truncate(stream: string, before: number): Promise<void> {
    const first = Math.min(before, await this.lastRevision(stream));
    if (first <= 0) return;
    this.firstVisible.delete(stream);
    await this.change(stream, (content) => ({ ...content, $tb: Math.max(first, typeof content.$tb === 'number' ? content.$tb : 0) }));
  }

  /** R1: Makes the last event readable again if its age hides the whole stream. Returns whether it did. */
  async unhideLast(stream: string): Promise<boolean> {
    const { content } = await this.read(stream);
    if (typeof content.$maxAge !== 'number') return false;
    const last = await this.lastRevision(stream);
    if (last < 0) return false;
    this.withoutSavedAge.delete(stream);
    await this.change(stream, ({ $maxAge, ...rest }) => ({
      ...rest,
      $tb: last,
      ...($maxAge === undefined ? {} : { [SAVED_AGE_MEMBER]: $maxAge }),
    }));
    return true;
  }

  /** R1: Restores the age that was put aside. Called after an append. */
  async restore(stream: string): Promise<void> {
    const seen = this.withoutSavedAge.get(stream);
    if (seen === undefined || performance.now() - seen > KNOWN_FOR_MS) {
      const { content } = await this.read(stream);
      if (content[SAVED_AGE_MEMBER] !== undefined)
        await this.change(stream, ({ [SAVED_AGE_MEMBER]: age, ...rest }) => ({ ...rest, ...(age === undefined ? {} : { $maxAge: age }) }));
    }
    setBounded(this.withoutSavedAge, stream, performance.now());
  }

  /** R3: Returns those of the events that are hidden in their streams. The whole log shows them until the server scavenges. */
  async hiddenEvents(events: Recorded[]): Promise<Set<Recorded>> {
    const streams = [...new Set(events.map(({ stream }) => stream))];
    for (let i = 0; i < streams.length; i += LOOKUPS_AT_ONCE)
      await Promise.all(streams.slice(i, i + LOOKUPS_AT_ONCE).map((stream) => this.refreshFirstVisible(stream)));
    return new Set(events.filter(({ stream, revision }) => revision < (this.firstVisible.get(stream)?.revision ?? 0)));
  }

  private async refreshFirstVisible(stream: string): Promise<void> {
    const known = this.firstVisible.get(stream);
    if (known && performance.now() - known.at < FIRST_VISIBLE_FOR_MS) return;
    const { events } = await this.reader.streamPage(stream, 0, false, 1);
    const revision = events[0]?.revision ?? (await this.lastRevision(stream));
    setBounded(this.firstVisible, stream, { revision, at: performance.now() });
  }

  private async read(stream: string): Promise<Metadata> {
    const { events } = await this.reader.streamPage(`$$${stream}`, Number.MAX_SAFE_INTEGER, true, 1);
    const [last] = events;
    return last ? { revision: last.revision, content: last.data } : { revision: -1, content: {} };
  }

  /** R2: Replaces the metadata. */
  private async change(stream: string, changed: (content: JsonObject) => JsonObject): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const { revision, content } = await this.read(stream);
      const next = changed(content);
      if (JSON.stringify(sorted(next)) === JSON.stringify(sorted(content))) return;
      const event = jsonEvent({ id: uuidv4(), type: '$metadata', data: next });
      try {
        await this.writer.write(`$$${stream}`, revision, [event]);
        return;
      } catch (error) {
        const passing = error instanceof WrongExpectedRevision || error instanceof OutcomeUnknown;
        if (!passing || attempt === TRIES_MAX) throw error instanceof OutcomeUnknown ? new EventStoreUnavailable(error.cause) : error;
        await pause(20 * attempt);
      }
    }
  }

  /** Returns the last revision, even of a stream whose events are all hidden; -1 if the stream does not exist. */
  private async lastRevision(stream: string): Promise<number> {
    const { credentials, names } = this.connection;
    const name = names.toServer(stream);
    const event = jsonEvent({ id: uuidv4(), type: 'Probe', data: {} });
    const options = { expectedRevision: REVISION_BEYOND_ALL, credentials, requiresLeader: true };
    try {
      await this.connection.call((client) => withTimeout(CALL_TIMEOUT_MS, client.appendToStream(name, [event], options)));
    } catch (error) {
      if (isOfType(error, ErrorType.STREAM_DELETED)) throw new StreamClosed(stream);
      if (!isOfType(error, ErrorType.WRONG_EXPECTED_VERSION))
        throw error instanceof EventStoreUnavailable ? error : new EventStoreUnavailable(error);
      const { actualVersion } = error as WrongExpectedVersionError;
      return typeof actualVersion === 'bigint' ? Number(actualVersion) : -1;
    }
    throw new Error(`the server accepted an append at an impossible revision of ${stream}`);
  }
}

function without(content: JsonObject, ...names: string[]): JsonObject {
  return Object.fromEntries(Object.entries(content).filter(([name]) => !names.includes(name)));
}

function sorted(content: JsonObject): [string, unknown][] {
  return Object.entries(content).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Sets the entry, and deletes the oldest if there are too many. */
function setBounded<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > KNOWN_STREAMS_MAX && oldest !== undefined) map.delete(oldest);
}
