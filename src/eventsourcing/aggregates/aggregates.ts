/**
 * Loads the state of a stream, decides a command on it, and appends the events.
 *
 * Owns: the order of commands on a stream in this process, and the repeats of decisions and appends. Does not own states (`StreamStates`)
 * or the log (`EventStore`).
 *
 * A1  A command is decided on the cached state first, since the append fails if that is stale. Only if the command would be refused or
 *     change nothing is it decided again on the newest state. So a write usually costs no more than the append.
 * A2  Each append states the revision that it continues. After another writer was faster, the command is decided again, a bounded number of
 *     times.
 * A3  An append with an unknown outcome is repeated with the same ids, so nothing is stored twice. The outcome stays unknown to the caller
 *     only after bounded repeats.
 * A4  A record whose id is derived from what it records is stored once, however often it is repeated.
 */
import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { Decider } from '../event-store/event-definition.ts';
import type { Position, StoredEvent } from '../event-store/event-store.ts';
import type { Loaded } from './dated-state.ts';

export type AnyEvent = { type: string; data: unknown };

export interface CommandResult<S> extends Loaded<S> {
  /** The state that the command was decided on; `state` is the state after it. */
  before: S;
  /** The events that were appended; none if the command changed nothing. */
  events: StoredEvent[];
}

export interface ExecuteOptions<E> {
  /** The revision that the caller saw (If-Match). The command is refused with `revision_mismatch` if the stream is at another one. */
  expectedRevision?: number;
  /**
   * A4: Returns an id (UUIDv5) derived from what the event records, so that a repeated record adds no second event. The last 500 such ids
   * of the stream are known.
   */
  eventId?: (event: E, index: number) => string;
  /** The account that the events belong to; by default it is that of the caller. */
  accountId?: string;
}

/** Loads the states of streams, and executes commands on them. */
export abstract class Aggregates {
  /**
   * Returns the stream's newest state; if `upTo` is given, the state at that end of the log, or later, so that a request asks for the log's
   * end only once (`CommandContext.seenUpTo`). Throws ProblemError `event_store_unavailable`.
   */
  abstract load<S, C, E extends AnyEvent>(stream: string, decider: Decider<S, C, E>, upTo?: Position): Promise<Loaded<S>>;

  /**
   * Loads the state for a caller of that network who is not known. Such callers have a small share of the database, so this also throws
   * `rate_limited` if many of them ask for streams that are not in memory.
   */
  abstract loadForAnonymous<S, C, E extends AnyEvent>(
    network: string,
    stream: string,
    decider: Decider<S, C, E>,
    upTo?: Position,
  ): Promise<Loaded<S>>;

  /**
   * Decides the command on the stream's state and appends the resulting events; decides again if another writer was faster. The returned
   * events are on disk. A record that another replica has stored, and that has not arrived here yet, returns what its first attempt
   * returned: the event and the state right after it, though other events may have followed. Throws what `decide` throws, ProblemError
   * `revision_mismatch`, ProblemError `event_store_unavailable` (also if, after several repeats, it is unknown whether the events were stored),
   * `StreamClosed`.
   */
  abstract execute<S, C, E extends AnyEvent>(
    stream: string,
    decider: Decider<S, C, E>,
    command: C,
    context: CommandContext,
    options?: ExecuteOptions<E>,
  ): Promise<CommandResult<S>>;

  /** Removes the snapshots that hold states of the subject. Call it when the subject's data key is destroyed. */
  abstract removeSnapshotsOf(subject: string): Promise<void>;
}
