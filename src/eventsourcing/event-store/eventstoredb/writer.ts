import { ErrorType, NO_STREAM, type EventData, type WrongExpectedVersionError } from '@eventstore/db-client';
import { pause } from '../../../kernel/async/pause.ts';
import {
  EventStoreUnavailable,
  OutcomeUnknown,
  StreamClosed,
  WrongExpectedRevision,
  type ExpectedRevision,
  type Position,
} from '../event-store.ts';
import { withTimeout, type Connection } from './connection.ts';
import { isClosing, positionOf } from './envelope.ts';
import { faultOf, isOfType } from './faults.ts';
import type { EventReader } from './reading.ts';

/**
 * Timeouts in ms. The server responds to a repeat after 2 to 3 s while the first append is in flight; its deadline is shorter than our own
 * timeout.
 */
const APPEND_DEADLINE_MS = 5_000;
const DEADLINE_MARGIN_MS = 1_000;
/**
 * The time for which a conflict without evidence is checked again, in ms. A leader that was deposed while it was frozen returns wrong
 * results for up to 1.6 s.
 */
const DOUBT_FOR_MS = 2_500;
const JUDGE_AGAIN_MS = 250;
const LEADER_TRIES_MAX = 10;
const LEADER_RETRY_MS = 100;
const REPEATS_MAX = 3;

export interface Written {
  /** The revision of the last event. */
  revision: number;
  /** The position of the last event; null if a retention hides it. */
  position: Position | null;
}

type Verdict = { kind: 'conflict'; actual: number } | { kind: 'closed' } | { kind: 'stored'; written: Written } | { kind: 'doubtful' };

/**
 * Sends appends. Each states a revision and ids, so that the server recognises a repeat. A conflict is believed only if the conflicting
 * event can be read, because a deposed leader can't invent an event.
 */
export class Writer {
  constructor(
    private readonly connection: Connection,
    private readonly reader: EventReader,
    private readonly deadlineMs = APPEND_DEADLINE_MS,
  ) {}

  /** Appends the events. `expected` is -1 if the stream must not exist. Throws what `EventStore.append` throws. */
  async write(stream: string, expected: number, events: EventData[]): Promise<Written> {
    let doubtSince: number | null = null;
    let mayBeStored = false;
    for (let tries = 1; ; tries += 1)
      try {
        return await this.send(stream, expected, events);
      } catch (error) {
        if (isOfType(error, ErrorType.WRONG_EXPECTED_VERSION)) {
          const answer = error as WrongExpectedVersionError;
          const verdict = await this.judge(stream, expected, events);
          if (verdict.kind === 'stored') return verdict.written;
          if (verdict.kind === 'closed') throw new StreamClosed(stream);
          if (verdict.kind === 'conflict') throw new WrongExpectedRevision(stream, portRevision(expected), verdict.actual);
          doubtSince ??= performance.now();
          if (performance.now() - doubtSince > DOUBT_FOR_MS)
            throw new WrongExpectedRevision(stream, portRevision(expected), actualOf(answer));
          this.connection.renew();
          await pause(JUDGE_AGAIN_MS);
        } else if (faultOf(error) === 'not_leader' && tries < LEADER_TRIES_MAX) await pause(LEADER_RETRY_MS);
        // The server responds like this if a repeat arrives while the first append is being written.
        else if (isOfType(error, ErrorType.TIMEOUT) && tries < REPEATS_MAX) mayBeStored = true;
        else if (mayBeStored && error instanceof EventStoreUnavailable) throw new OutcomeUnknown(stream, error.cause);
        else throw asThrown(stream, error);
      }
  }

  private async send(stream: string, expected: number, events: EventData[]): Promise<Written> {
    const { credentials, names } = this.connection;
    const name = names.toServer(stream);
    const expectedRevision = expected < 0 ? NO_STREAM : BigInt(expected);
    const deadline = this.deadlineMs;
    const { nextExpectedRevision, position } = await this.connection.call((client) =>
      withTimeout(
        deadline + DEADLINE_MARGIN_MS,
        client.appendToStream(name, events, { expectedRevision, credentials, requiresLeader: true, deadline }),
      ),
    );
    return { revision: Number(nextExpectedRevision), position: position ? positionOf(position.commit) : null };
  }

  /** Decides from the events in the stream what a refused append means. Throws `OutcomeUnknown` if the stream can't be read now. */
  private async judge(stream: string, expected: number, events: EventData[]): Promise<Verdict> {
    try {
      const { events: newest } = await this.reader.streamPage(stream, Number.MAX_SAFE_INTEGER, true, 2);
      const [last] = newest;
      if (last === undefined) return { kind: 'doubtful' };
      if (isClosing(last)) return { kind: 'closed' };
      if (last.revision <= expected) return { kind: 'doubtful' };
      const { events: there } = await this.reader.streamPage(stream, expected + 1, false, events.length);
      const own = there.length === events.length && there.every(({ id }, index) => id === events[index]?.id);
      const end = there.at(-1);
      if (own && end) return { kind: 'stored', written: { revision: end.revision, position: end.position } };
      return { kind: 'conflict', actual: last.revision };
    } catch (error) {
      throw error instanceof EventStoreUnavailable ? new OutcomeUnknown(stream, error.cause) : error;
    }
  }
}

function portRevision(expected: number): ExpectedRevision {
  return expected < 0 ? 'no_stream' : expected;
}

function actualOf({ actualVersion }: WrongExpectedVersionError): number {
  return typeof actualVersion === 'bigint' ? Number(actualVersion) : -1;
}

function asThrown(stream: string, error: unknown): unknown {
  if (error instanceof EventStoreUnavailable || error instanceof StreamClosed) return error;
  if (isOfType(error, ErrorType.STREAM_DELETED)) return new StreamClosed(stream);
  if (isOfType(error, ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED))
    return new RangeError('the append is larger than the server accepts', { cause: error });
  return faultOf(error) === 'unknown' ? new OutcomeUnknown(stream, error) : new EventStoreUnavailable(error);
}
