/**
 * Reads from EventStoreDB, in pages.
 *
 * Owns: the known head of each class of events. Does not own the connection or the subscriptions (`Feed`).
 *
 * R1  Each page is a call of its own, so a reader that is slow, or stops early, keeps no call open.
 * R2  Each call ends: at the end of the log, at its limit of events or bytes, or when the server has sent nothing for some time.
 * R3  Every failure of the server to respond is thrown as `EventStoreUnavailable`.
 * R4  The head of a class moves only forward, and no event of the class lies between a known `head` and what was `scanned`.
 */
import {
  BACKWARDS,
  END,
  ErrorType,
  FORWARDS,
  START as FIRST,
  streamNameFilter,
  type AllStreamResolvedEvent,
  type EventStoreDBClient,
  type ResolvedEvent,
  type StreamingRead,
} from '@eventstore/db-client';
import type { EventCatalogue } from '../event-catalogue.ts';
import { EventStoreUnavailable, matches, START, type EventClass, type EventFilter, type Position } from '../event-store.ts';
import type { Batch } from '../events-up-to.ts';
import type { Connection } from './connection.ts';
import { fromServer, isClosing, serverPosition, toPort, type Recorded } from './envelope.ts';
import { isOfType, ResponseTimeout } from './faults.ts';
import type { Names } from './names.ts';

const PAGE_EVENTS = 1_000;
const PAGE_BYTES = 8 * 1024 * 1024;
const STREAM_PAGE_EVENTS = 500;
/** The number of single records that are read in parallel. */
const READS_AT_ONCE = 16;
/** R2: The time without a response after which a read fails, in ms. It includes the wait for a free call slot. */
const CALL_TIMEOUT_MS = 4_000;
/** The number of events that are searched backwards for the last one of a class. */
const HEAD_SCAN_EVENTS_MAX = 4_000;
/** If fewer than one in this many events is of the class, a filtered subscription is used instead of pages. */
const SPARSE_FACTOR = 10;
/** The number of pages, of 32 events each, that the server reads between two checkpoints. */
const CHECKPOINT_EVENTS = 32;

interface Page {
  events: Recorded[];
  /** The value is true if the server may have more. */
  more: boolean;
}

type Read = StreamingRead<ResolvedEvent | AllStreamResolvedEvent>;

/** The reader of the log. See R1 to R4. */
export class EventReader {
  /** R4: The known end of each class. */
  private readonly heads: Record<EventClass, { head: Position; scanned: Position }> = {
    core: { head: START, scanned: START },
    log: { head: START, scanned: START },
  };

  constructor(
    private readonly connection: Connection,
    private readonly catalogue: EventCatalogue,
  ) {}

  /** Reads a page of the stream, including the closing event; an unknown stream is empty. */
  streamPage(stream: string, from: number, backwards: boolean, limit: number): Promise<Page> {
    const fromRevision = backwards && from >= Number.MAX_SAFE_INTEGER ? END : BigInt(from);
    const direction = backwards ? BACKWARDS : FORWARDS;
    return this.page(limit, (client) =>
      client.readStream(this.connection.names.toServer(stream), {
        fromRevision,
        direction,
        maxCount: limit,
        requiresLeader: true,
        credentials: this.connection.credentials,
      }),
    );
  }

  /** Reads the events after the position in the whole log, of all installations. */
  async allPage(after: Position, limit = PAGE_EVENTS): Promise<Page> {
    const fromPosition = after === START ? FIRST : serverPosition(after);
    const { credentials } = this.connection;
    const page = await this.page(limit + 1, (client) =>
      client.readAll({ fromPosition, direction: FORWARDS, maxCount: limit + 1, requiresLeader: true, credentials }),
    );
    // The server's page begins with the event at the position itself, which is left out.
    return { ...page, events: page.events.filter(({ position }) => position > after) };
  }

  /** Reads from a record on, including that record. */
  async from(position: Position, limit: number): Promise<Recorded[]> {
    const { credentials } = this.connection;
    const fromPosition = serverPosition(position);
    const { events } = await this.page(limit, (client) =>
      client.readAll({ fromPosition, direction: FORWARDS, maxCount: limit, requiresLeader: true, credentials }),
    );
    return events;
  }

  /**
   * Reads the core records at the positions, in the order of the positions. Each takes a call of its own, since the server has no call for
   * several.
   */
  async *at(positions: readonly Position[]): AsyncGenerator<Recorded> {
    for (let next = 0; next < positions.length; next += READS_AT_ONCE) {
      const some = positions.slice(next, next + READS_AT_ONCE);
      const records = await Promise.all(
        some.map(async (position) => (await this.from(position, 1)).filter((each) => each.position === position)),
      );
      yield* records.flat().filter((event) => event.eventClass === 'core' && !isClosing(event));
    }
  }

  /** Returns the events after the position that pass the filter: at most 1 000, and no further one once 8 MiB are reached. */
  async batch(after: Position, filter: EventFilter, isForgotten?: (events: Recorded[]) => Promise<Set<Recorded>>): Promise<Batch> {
    const { events, upTo } = await this.readClass(after, filter.eventClass);
    const passed = events.filter((event) => passes(event, filter));
    const forgotten = await isForgotten?.(passed);
    const kept = forgotten ? passed.filter((event) => !forgotten.has(event)) : passed;
    return { events: kept.map((event) => toPort(event, this.catalogue)), upTo };
  }

  /**
   * Reads events of the class. After its last event, `upTo` advances by whole pages of other events; on the log's last page it is the
   * position of that event.
   */
  private async readClass(after: Position, eventClass: EventClass): Promise<{ events: Recorded[]; upTo: Position }> {
    const page = await this.allPage(after);
    const events = page.events.filter((event) => event.eventClass === eventClass);
    if (!page.more || events.length > page.events.length / SPARSE_FACTOR)
      return { events, upTo: events.at(-1)?.position ?? (page.more ? page.events.at(-1)?.position : undefined) ?? after };
    // The server filters only subscriptions.
    const end = await this.end();
    const found = await this.call((client, askedAt) => this.readFiltered(client, askedAt, after, eventClass));
    const last = found.events.at(-1)?.position ?? after;
    return { events: found.events, upTo: found.passedOthers && end > last ? end : last };
  }

  private readFiltered(
    client: EventStoreDBClient,
    askedAt: number,
    after: Position,
    eventClass: EventClass,
  ): Promise<{ events: Recorded[]; passedOthers: boolean }> {
    const { credentials, names } = this.connection;
    let checkpoints = 0;
    const filter = streamNameFilter({
      ...names.filters[eventClass],
      checkpointInterval: CHECKPOINT_EVENTS,
      checkpointReached: () => void (checkpoints += 1),
    });
    const fromPosition = after === START ? FIRST : serverPosition(after);
    const subscription = client.subscribeToAll({ fromPosition, filter, requiresLeader: true, credentials });
    const read = Object.assign(subscription, { cancel: () => subscription.unsubscribe() }) as unknown as Read;
    return collectPage(read, askedAt, PAGE_EVENTS, names, () => checkpoints).then(({ events, more }) => ({
      events,
      passedOthers: !more && checkpoints > 0,
    }));
  }

  /**
   * Returns the position of the last event of the class. If many other events follow it, a later position is returned, with no event of the
   * class in between.
   */
  async head(eventClass: EventClass): Promise<Position> {
    const known = { ...this.heads[eventClass] };
    let scanned: Position | null = null;
    let end: Position | null = null;
    for (let count = 0, size = 16; count < HEAD_SCAN_EVENTS_MAX; size = Math.min(size * 8, PAGE_EVENTS)) {
      const { events, more } = await this.backwards(end, size);
      scanned ??= events[0]?.position ?? START;
      const found = events.find((event) => event.eventClass === eventClass);
      end = events.at(-1)?.position ?? null;
      count += events.length;
      const older = found === undefined || found.position <= known.scanned;
      if (!older) return this.noteHead(eventClass, found.position, scanned);
      if (!more || end === null || end <= known.scanned) return this.noteHead(eventClass, known.head, scanned);
    }
    return this.noteHead(eventClass, end ?? START, scanned ?? START);
  }

  /** Returns the end of the whole log, of all installations. */
  async end(): Promise<Position> {
    const { events } = await this.backwards(null, 1);
    return events[0]?.position ?? START;
  }

  async ping(): Promise<void> {
    await this.backwards(null, 1);
  }

  private noteHead(eventClass: EventClass, head: Position, scanned: Position): Position {
    const known = this.heads[eventClass];
    if (scanned > known.scanned) this.heads[eventClass] = { head, scanned };
    return head;
  }

  private backwards(before: Position | null, limit: number): Promise<Page> {
    const fromPosition = before === null ? END : serverPosition(before);
    const { credentials } = this.connection;
    return this.page(limit, (client) =>
      client.readAll({ fromPosition, direction: BACKWARDS, maxCount: limit, requiresLeader: true, credentials }),
    );
  }

  private async page(limit: number, open: (client: EventStoreDBClient) => unknown): Promise<Page> {
    const read = (client: EventStoreDBClient, askedAt: number) => collectPage(open(client) as Read, askedAt, limit, this.connection.names);
    try {
      return await this.call(read);
    } catch (error) {
      if (error instanceof EventStoreUnavailable && isOfType(error.cause, ErrorType.STREAM_NOT_FOUND)) return { events: [], more: false };
      throw error;
    }
  }

  private async call<T>(work: (client: EventStoreDBClient, askedAt: number) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const askedAt = performance.now();
      try {
        return await this.connection.call((client) => work(client, askedAt));
      } catch (error) {
        if (error instanceof EventStoreUnavailable) throw error;
        // After this error the client connects to the leader by itself.
        if (!isOfType(error, ErrorType.NOT_LEADER) || attempt === 3) throw new EventStoreUnavailable(error);
      }
    }
  }
}

/**
 * R2: Reads to the end, to the limit, or until 8 MiB are read, and always ends the call. The time without a response begins at `askedAt`.
 * `heard` returns the number of other messages of the server, such as checkpoints.
 */
function collectPage(read: Read, askedAt: number, limit: number, names: Names, heartbeats: () => number = () => 0): Promise<Page> {
  return new Promise((resolve, reject) => {
    const events: Recorded[] = [];
    let count = 0;
    let bytes = 0;
    let known = 0;
    let last = askedAt;
    const leave = () => {
      clearInterval(timer);
      read.removeAllListeners('data');
      void read.cancel().catch(() => undefined);
    };
    const timer = setInterval(() => {
      const now = performance.now();
      if (heartbeats() > known) last = now;
      known = heartbeats();
      if (now - last < CALL_TIMEOUT_MS) return;
      leave();
      reject(new ResponseTimeout(CALL_TIMEOUT_MS));
    }, CALL_TIMEOUT_MS / 8);
    const done = (more: boolean) => {
      leave();
      resolve({ events, more });
    };
    read.on('data', (resolved) => {
      last = performance.now();
      count += 1;
      const event = fromServer(resolved, names);
      // The network layer may deliver an event twice.
      if (event === null || event.position === events.at(-1)?.position) return;
      events.push(event);
      bytes += JSON.stringify(event.data).length;
      if (bytes >= PAGE_BYTES || count >= limit) done(true);
    });
    read.on('end', () => done(false));
    read.on('caughtUp', () => done(false));
    // This listener is never removed: an error after the end of a call must not end the process.
    read.on('error', (error) => {
      leave();
      reject(error);
    });
  });
}

/** Reads the stream as the port sees it: in pages, without the closing event. */
export async function* streamEvents(
  reader: EventReader,
  stream: string,
  { from, backwards, limit }: { from: number; backwards: boolean; limit: number },
): AsyncGenerator<Recorded> {
  let left = limit;
  for (let next = from; left > 0 && next >= 0;) {
    // One more event is read, since the closing event may be the first.
    const { events, more } = await reader.streamPage(stream, next, backwards, Math.min(left + 1, STREAM_PAGE_EVENTS));
    for (const event of events) {
      if (isClosing(event)) continue;
      if (left === 0) return;
      left -= 1;
      yield event;
    }
    const last = events.at(-1);
    if (!more || last === undefined) return;
    next = last.revision + (backwards ? -1 : 1);
  }
}

export function passes(event: Recorded, filter: EventFilter): boolean {
  return !isClosing(event) && matches(filter)(event);
}
