/*
 * Executes commands on aggregates: it loads a state, lets the decider decide, and appends the events.
 *
 * It owns the order of these steps, the repeats after a conflict or an unknown outcome, and the sentences that callers get when the store
 * is unavailable. It does not own the cached states (`StreamStates`), snapshots (`Snapshots`), the queue of each stream (`StreamQueues`),
 * or any rule of a feature (the deciders).
 *
 * Invariants:
 * X1. A write costs no more than its append: a command is first decided on the cached state, because the append fails if that is stale.
 * X2. No command is refused, and none is found to change nothing, on a stale state: it is decided again on the newest one first.
 * X3. An append whose outcome is unknown is repeated with the same event ids, so its events are stored once.
 * X4. A caller reads what it wrote: the position of the last event, new or found, is noted in the command's context.
 * X5. Every repeat has a bound: 20 decisions on one command, and 8 appends within about 10 s.
 */

import { Injectable } from '@nestjs/common';
import { pause } from '../../kernel/async/pause.ts';
import { Backoff } from '../../kernel/async/retry.ts';
import { Clock } from '../../kernel/clock.ts';
import { noteWritten, type CommandContext } from '../../kernel/context/command-context.ts';
import { newId } from '../../kernel/ids.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { EventCatalogue } from '../event-store/event-catalogue.ts';
import type { Decider, JsonObject } from '../event-store/event-definition.ts';
import {
  EventStore,
  EventStoreUnavailable,
  OutcomeUnknown,
  START,
  StreamClosed,
  WrongExpectedRevision,
  type AppendResult,
  type EventMetadata,
  type NewEvent,
  type Position,
} from '../event-store/event-store.ts';
import type { Loaded } from './dated-state.ts';
import { DerivedIds } from './derived-ids.ts';
import { Aggregates, type AnyEvent, type CommandResult, type ExecuteOptions } from './aggregates.ts';
import { Snapshots } from './snapshots.ts';
import type { StreamState } from './stream-state.ts';
import { StreamStates } from './stream-states.ts';
import { StreamQueues } from './stream-queues.ts';

/** The most decisions on one command, if other writers append first each time. */
const DECISIONS_MAX = 20;
/** The decisions that follow each other without a wait. */
const IMMEDIATE_DECISIONS = 5;
/** The wait before a later decision, in ms for each decision made so far; a random part of it is used. */
const DECISION_WAIT_MS = 5;
/** The most attempts to append. */
const REPEATS_MAX = 8;
/** The time after which no further attempt to append begins, in ms: a store that hangs takes seconds for each. */
const REPEAT_FOR_MS = 10_000;
/** The first wait between attempts to append, which doubles each time, and the longest, in ms. */
const FIRST_REPEAT_MS = 50;
const LAST_REPEAT_MS = 2_000;

const REPEAT_HINT = 'Send the request again with the same Idempotency-Key: what was stored is found, and not done twice.';

/** The command, with all that is needed to execute it. */
interface CommandExecution<S, C, E extends AnyEvent> {
  stream: string;
  decider: Decider<S, C, E>;
  command: C;
  context: CommandContext;
  options: ExecuteOptions<E>;
}

/** Executes commands with the cached state of each stream. */
@Injectable()
export class CachedAggregates extends Aggregates {
  private readonly queues = new StreamQueues();

  constructor(
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
    private readonly clock: Clock,
    private readonly states: StreamStates,
    private readonly snapshots: Snapshots,
  ) {
    super();
  }

  async load<S, C, E extends AnyEvent>(stream: string, decider: Decider<S, C, E>, upTo?: Position): Promise<Loaded<S>> {
    return loadedStateOf(await translateOutage(() => this.states.newest<S>(stream, decider, { upTo })));
  }

  async loadForAnonymous<S, C, E extends AnyEvent>(
    network: string,
    stream: string,
    decider: Decider<S, C, E>,
    upTo?: Position,
  ): Promise<Loaded<S>> {
    return loadedStateOf(await translateOutage(() => this.states.newest<S>(stream, decider, { upTo, anonymousNetwork: network })));
  }

  execute<S, C, E extends AnyEvent>(
    stream: string,
    decider: Decider<S, C, E>,
    command: C,
    context: CommandContext,
    options: ExecuteOptions<E> = {},
  ): Promise<CommandResult<S>> {
    return this.queues.run(stream, () => translateOutage(() => this.run({ stream, decider, command, context, options }), context));
  }

  async removeSnapshotsOf(subject: string): Promise<void> {
    await this.snapshots.removeOf(subject);
  }

  private async run<S, C, E extends AnyEvent>(work: CommandExecution<S, C, E>): Promise<CommandResult<S>> {
    const { stream, decider } = work;
    // X1
    let before = this.states.cached<S>(stream, decider);
    let events = before === undefined ? [] : this.decideOnStale(before, work);
    let mayBeStale = events.length > 0;
    // X2
    if (before === undefined || events.length === 0) {
      before = await this.states.newest<S>(stream, decider);
      events = this.decide(before, work);
    }
    for (let decisions = 1; events.length > 0; decisions += 1) {
      try {
        return await this.write(before, work, events);
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision || (mayBeStale && error instanceof StreamClosed))) throw error;
        // The stream ends before its cached state: the log was restored to an older state.
        if (error instanceof WrongExpectedRevision && error.actual < before.revision) this.states.evict(stream);
        // X5
        if (decisions === DECISIONS_MAX) throw new EventStoreUnavailable(error);
      }
      mayBeStale = false;
      if (decisions > IMMEDIATE_DECISIONS) await pause(Math.random() * DECISION_WAIT_MS * decisions);
      before = await this.states.read<S>(stream, decider);
      events = this.decide(before, work);
    }
    noteEnd(work.context, before);
    return { ...loadedStateOf(before), before: before.state, events: [] };
  }

  /** Returns the events, or none if the command would be refused or change nothing: then it is decided on the newest state. */
  private decideOnStale<S, C, E extends AnyEvent>(before: StreamState<S>, work: CommandExecution<S, C, E>): NewEvent[] {
    try {
      return this.decide(before, work);
    } catch {
      return [];
    }
  }

  /** Returns the events to append, without those that are recorded already. */
  private decide<S, C, E extends AnyEvent>(
    before: StreamState<S>,
    { decider, command, context, options }: CommandExecution<S, C, E>,
  ): NewEvent[] {
    const { expectedRevision, eventId } = options;
    if (expectedRevision !== undefined && expectedRevision !== before.revision)
      throw new ProblemError('revision_mismatch', `It was changed meanwhile: revision ${before.revision}, not ${expectedRevision}.`);
    const metadata = metadataOf(context, options.accountId);
    const decided = decider.decide(command, before.state, this.clock.now());
    if (eventId === undefined) return decided.map((event) => this.newEvent(event, newId(), metadata));
    const events = decided.map((event, index) => this.newEvent(event, eventId(event, index).toLowerCase(), metadata));
    if (!events.every(({ id }) => DerivedIds.isDerived(id))) throw new Error('the id of a record has to be a UUIDv5');
    return events.filter(({ id }) => !before.derivedIds.has(id));
  }

  private async write<S, C, E extends AnyEvent>(
    before: StreamState<S>,
    work: CommandExecution<S, C, E>,
    newEvents: NewEvent[],
  ): Promise<CommandResult<S>> {
    const { stream, decider, context } = work;
    const since = this.states.receivedCount;
    const { events } = await this.append(stream, before.revision, newEvents);
    const after = this.states.applyAppended(stream, decider, before, events, since);
    noteEnd(context, after);
    return { ...loadedStateOf(after), before: before.state, events };
  }

  private newEvent(event: AnyEvent, id: string, metadata: EventMetadata): NewEvent {
    return { id, type: event.type, schemaVersion: this.catalogue.versionOf(event.type), data: event.data as JsonObject, metadata };
  }

  /**
   * Repeats the append with the same ids while its outcome is unknown, within bounds (X3, X5). Throws `OutcomeUnknown` if the outcome of
   * any attempt is unknown, even if the last error shows only that the store is unavailable.
   */
  private async append(stream: string, revision: number, events: NewEvent[]): Promise<AppendResult> {
    const backoff = new Backoff({ firstMs: FIRST_REPEAT_MS, lastMs: LAST_REPEAT_MS, jitter: true });
    const began = performance.now();
    let unknown: OutcomeUnknown | null = null;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.store.append(stream, revision < 0 ? 'no_stream' : revision, events);
      } catch (error) {
        if (error instanceof OutcomeUnknown) unknown = error;
        // Any other answer of the store also settles the earlier attempts: an append with the same ids is stored once.
        if (unknown === null || !(error instanceof OutcomeUnknown || error instanceof EventStoreUnavailable)) throw error;
        if (attempt === REPEATS_MAX || performance.now() - began > REPEAT_FOR_MS) throw unknown;
        await backoff.pause();
      }
    }
  }
}

function loadedStateOf<S>({ state, createdAt, changedAt, revision, position }: StreamState<S>): Loaded<S> {
  return { state, createdAt, changedAt, revision, position };
}

/**
 * Notes the position for the caller's next read (X4). Events that a repeated request finds stored count, too; a stream without events does
 * not.
 */
function noteEnd(context: CommandContext, { position }: StreamState): void {
  if (position > START) noteWritten(context, position);
}

function metadataOf({ actor, accountId, requestId, causationId, ip }: CommandContext, owner = accountId): EventMetadata {
  return { actor, account_id: owner, request_id: requestId, causation_id: causationId, ip };
}

async function translateOutage<T>(work: () => Promise<T>, context?: CommandContext): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OutcomeUnknown)
      throw unavailableError(`The event store did not answer; the change may or may not have been stored. ${REPEAT_HINT}`);
    if (!(error instanceof EventStoreUnavailable)) throw error;
    // One request may change several streams, so some of its events may have been stored.
    if (context?.writtenUpTo === undefined) throw unavailableError('The event store is not available; nothing was changed.');
    throw unavailableError(`The event store is not available; a part of the change has been stored. ${REPEAT_HINT}`);
  }
}

function unavailableError(detail: string): ProblemError {
  return new ProblemError('event_store_unavailable', detail, { retryAfterSeconds: 1 });
}
