import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { Clock } from '../clock.ts';
import type { CommandContext } from '../http/caller.ts';
import { Refusal } from '../refusal.ts';
import { EventCatalogue } from './catalogue.ts';
import type { Decider, JsonObject } from './event-definition.ts';
import {
  EventStore,
  EventStoreUnavailable,
  OutcomeUnknown,
  START,
  WrongExpectedRevision,
  type AppendResult,
  type EventMetadata,
  type NewEvent,
  type Position,
  type StoredEvent,
} from './event-store.ts';
import { StreamQueues } from './stream-queues.ts';

type AnyEvent = { type: string; data: unknown };

export interface Loaded<S> {
  state: S;
  /** Of the last event; -1 where the stream is absent. */
  revision: number;
  /** Of the last event; `START` where the stream is absent. */
  position: Position;
}

export interface Executed<S> extends Loaded<S> {
  /** The state that the command was decided on; `state` is what it became. */
  before: S;
  /** None where the command changed nothing. */
  events: StoredEvent[];
}

export interface ExecuteOptions<E> {
  /** The revision that the caller saw (If-Match); another one refuses the command with `revision_mismatch`. */
  expectedRevision?: number;
  /** Ids derived from what the events record, so that a repeated record is not a second fact. Looked for among the last 500 events. */
  eventId?: (event: E, index: number) => string;
}

const decisions = 20;
const repeats = 8;
/** Milliseconds after which no further repeat begins: a store that hangs takes seconds for each. */
const repeatFor = 10_000;
/** Milliseconds; doubled up to the last. */
const firstRepeat = 50;
const lastRepeat = 2_000;
const cachedStreams = 2_000;
const lookBack = 500;

/** Load → decide → append. States are kept and shared between calls: deciders never change one in place. */
@Injectable()
export class Aggregates {
  readonly #queues = new StreamQueues();
  /** Least recently used first. A state is never trusted to be the newest: each load asks for what followed it. */
  readonly #cache = new Map<string, Map<unknown, Loaded<unknown>>>();

  constructor(
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
    private readonly clock: Clock,
  ) {}

  /** The stream's state now. Throws Refusal `event_store_unavailable`. */
  async load<S, C, E extends AnyEvent>(stream: string, decider: Decider<S, C, E>): Promise<Loaded<S>> {
    return available(() => this.#load(stream, decider));
  }

  /**
   * Decides the command on the stream's state and appends what follows; decides anew where another writer was faster.
   * What it answers is on disk. Throws what `decide` throws, Refusal `revision_mismatch`, Refusal `event_store_unavailable`
   * (also where, after several repeats, it is unknown whether the events were stored), `StreamClosed`.
   */
  execute<S, C, E extends AnyEvent>(
    stream: string,
    decider: Decider<S, C, E>,
    command: C,
    context: CommandContext,
    options: ExecuteOptions<E> = {},
  ): Promise<Executed<S>> {
    return this.#queues.run(stream, () => available(() => this.#execute(stream, decider, command, context, options)));
  }

  async #execute<S, C, E extends AnyEvent>(
    stream: string,
    decider: Decider<S, C, E>,
    command: C,
    context: CommandContext,
    { expectedRevision, eventId }: ExecuteOptions<E>,
  ): Promise<Executed<S>> {
    for (let attempt = 1; ; attempt += 1) {
      const before = await this.#load(stream, decider);
      if (expectedRevision !== undefined && expectedRevision !== before.revision)
        throw new Refusal('revision_mismatch', `It was changed meanwhile: revision ${before.revision}, not ${expectedRevision}.`);
      const decided = decider.decide(command, before.state, this.clock.now());
      const metadata = metadataOf(context);
      const events = decided.map((event, index) => this.#newEvent(event, eventId?.(event, index) ?? uuidv7(), metadata));
      const fresh = eventId && events.length > 0 ? await this.#withoutRecorded(stream, events) : events;
      if (fresh.length === 0) {
        noteWritten(context, before.position);
        return { ...before, before: before.state, events: [] };
      }
      try {
        const result = await this.#append(stream, before.revision, fresh);
        const after = folded(decider, before, result.events);
        this.#keep(stream, decider, after);
        noteWritten(context, after.position);
        return { ...after, before: before.state, events: result.events };
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision)) throw error;
        // Behind what is kept here: the log was put back to an older state.
        if (error.actual < before.revision) this.#cache.delete(stream);
        if (attempt === decisions) throw new EventStoreUnavailable(error);
      }
    }
  }

  async #load<S, C, E extends AnyEvent>(stream: string, decider: Decider<S, C, E>): Promise<Loaded<S>> {
    const kept = this.#cache.get(stream)?.get(decider) as Loaded<S> | undefined;
    let loaded = kept ?? { state: decider.initialState(), revision: -1, position: START };
    for await (const event of this.store.readStream(stream, { from: loaded.revision + 1 })) loaded = folded(decider, loaded, [event]);
    if (loaded.revision >= 0) this.#keep(stream, decider, loaded);
    return loaded;
  }

  #newEvent(event: AnyEvent, id: string, metadata: EventMetadata): NewEvent {
    return { id, type: event.type, schemaVersion: this.catalogue.versionOf(event.type), data: event.data as JsonObject, metadata };
  }

  async #withoutRecorded(stream: string, events: NewEvent[]): Promise<NewEvent[]> {
    const recorded = new Set<string>();
    for await (const { id } of this.store.readStream(stream, { backwards: true, limit: lookBack })) recorded.add(id);
    return events.filter(({ id }) => !recorded.has(id.toLowerCase()));
  }

  /** Repeats the same append with the same ids for as long as its outcome is unknown, within bounds. */
  async #append(stream: string, revision: number, events: NewEvent[]): Promise<AppendResult> {
    let delay = firstRepeat;
    const began = performance.now();
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.store.append(stream, revision < 0 ? 'no_stream' : revision, events);
      } catch (error) {
        const unknown = error instanceof OutcomeUnknown || (attempt > 1 && error instanceof EventStoreUnavailable);
        if (!unknown || attempt === repeats || performance.now() - began > repeatFor) throw error;
        await wait(delay * (0.5 + Math.random() / 2));
        delay = Math.min(delay * 2, lastRepeat);
      }
    }
  }

  #keep(stream: string, decider: unknown, loaded: Loaded<unknown>): void {
    const states = this.#cache.get(stream) ?? new Map<unknown, Loaded<unknown>>();
    const kept = states.get(decider);
    if (kept === undefined || kept.revision < loaded.revision) states.set(decider, loaded);
    this.#cache.delete(stream);
    this.#cache.set(stream, states);
    const oldest = this.#cache.keys().next();
    if (this.#cache.size > cachedStreams && !oldest.done) this.#cache.delete(oldest.value);
  }
}

function folded<S, C, E extends AnyEvent>(decider: Decider<S, C, E>, from: Loaded<S>, events: StoredEvent[]): Loaded<S> {
  return events.reduce<Loaded<S>>(
    ({ state }, event) => ({
      state: decider.evolve(state, { type: event.type, data: event.data } as unknown as E),
      revision: event.revision,
      position: event.position,
    }),
    from,
  );
}

/** What a repeat finds done already counts as written by it: its caller may read it too. */
function noteWritten(context: CommandContext, position: Position): void {
  if (position > (context.writtenUpTo ?? START)) context.writtenUpTo = position;
}

function metadataOf({ actor, accountId, requestId, causationId, ip }: CommandContext): EventMetadata {
  return { actor, account_id: accountId, request_id: requestId, causation_id: causationId, ip };
}

async function available<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OutcomeUnknown)
      throw new Refusal('event_store_unavailable', 'The event store did not answer; the change may or may not have been stored.', {
        retryAfterSeconds: 1,
      });
    if (error instanceof EventStoreUnavailable)
      throw new Refusal('event_store_unavailable', 'The event store is not available; nothing was changed.', { retryAfterSeconds: 1 });
    throw error;
  }
}
