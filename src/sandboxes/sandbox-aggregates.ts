import type { CommandContext } from '../kernel/context/command-context.ts';
import type { ProblemError } from '../kernel/errors/problem-error.ts';
import type { Aggregates, CommandResult, ExecuteOptions } from '../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../eventsourcing/aggregates/dated-state.ts';
import type { Decider } from '../eventsourcing/event-store/event-definition.ts';
import type { EventStore, ExpectedRevision, Position, ReadStreamOptions, StoredEvent } from '../eventsourcing/event-store/event-store.ts';
import type { EventWaits, EventWatch } from '../eventsourcing/log/event-waits.ts';

type AnyEvent = { type: string; data: unknown };

/** The longest time for which a caller waits until a sandbox is deleted, in ms. */
const DELETION_TIMEOUT_MS = 30_000;

interface SandboxState {
  accountId: string;
  status: string;
}

/** One kind of sandboxes as aggregates. */
export interface SandboxAggregate<State extends SandboxState, Command, Event extends AnyEvent> {
  decider: Decider<State | null, Command, Event>;
  /** Returns the name of the stream of the sandbox with that id. */
  streamOf(id: string): string;
  /** Returns the subject whose data key seals what the sandbox's events hold. */
  subjectOf(id: string): string;
  /** Returns the account's sandbox. Throws the kind's `…_not_found`, for another account's as for a missing one. */
  requireOwned(state: State | null, accountId: string): State;
  notFound(): ProblemError;
}

/** A sandbox as a write of its account has left it. */
export type Written<State> = CommandResult<State | null> & { state: State };

/** Loads the sandboxes of one kind and executes commands on them. The rest of the program knows neither their decider nor their streams. */
export abstract class SandboxAggregates<State extends SandboxState, Command, Event extends AnyEvent> {
  protected constructor(
    protected readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly waits: EventWaits,
    private readonly kind: SandboxAggregate<State, Command, Event>,
  ) {}

  /**
   * Returns the newest state of the account's sandbox, which exists until its deletion is requested. Throws the kind's `…_not_found`, for
   * another account's sandbox as for a missing one. See `Aggregates.load` for `upTo`.
   */
  async load(id: string, accountId: string, upTo?: Position): Promise<State> {
    return this.kind.requireOwned((await this.find(id, upTo)).state, accountId);
  }

  /** Returns the account's sandbox, even if it is deleted. Throws the kind's `…_not_found`. */
  async loadWithDeleted(id: string, accountId: string): Promise<Loaded<State>> {
    return this.ofAccount(await this.find(id), accountId);
  }

  /** Returns the newest state of a sandbox of any account, even if it is deleted; null if there never was one. */
  find(id: string, upTo?: Position): Promise<Loaded<State | null>> {
    return this.aggregates.load(this.kind.streamOf(id), this.kind.decider, upTo);
  }

  /** Executes the command. Throws the errors of the kind's rules, and those of `Aggregates.execute`. */
  execute(id: string, command: Command, context: CommandContext, options?: ExecuteOptions<Event>): Promise<CommandResult<State | null>> {
    return this.aggregates.execute(this.kind.streamOf(id), this.kind.decider, command, context, options);
  }

  /** Executes a command of the account on its sandbox. Throws as `execute`. */
  async write(
    id: string,
    accountId: string,
    command: Command,
    context: CommandContext,
    options?: ExecuteOptions<Event>,
  ): Promise<Written<State>> {
    return this.ofAccount(await this.execute(id, command, context, options), accountId);
  }

  /** Reads the events of the sandbox's stream in order. */
  events(id: string, options?: ReadStreamOptions): AsyncIterable<StoredEvent> {
    return this.store.readStream(this.kind.streamOf(id), options);
  }

  /** Starts to watch for the sandbox's events. See `EventWaits.watch`. */
  watch(id: string): EventWatch {
    return this.waits.watch(this.kind.streamOf(id));
  }

  /** Waits until the probe has a result, which it looks for now and after each event of the sandbox. See `EventWaits.until`. */
  until<T>(id: string, probe: () => Promise<T | undefined>, options: { timeoutMs: number; signal?: AbortSignal }): Promise<T | null> {
    return this.waits.until(this.kind.streamOf(id), probe, options);
  }

  /** Waits until the sandbox is deleted. Returns the position of its newest event then; null after 30 s. */
  untilDeleted(id: string): Promise<Position | null> {
    const probe = async () => {
      const { state, position } = await this.find(id);
      return state?.status === 'deleted' ? position : undefined;
    };
    return this.until(id, probe, { timeoutMs: DELETION_TIMEOUT_MS });
  }

  /** Closes the sandbox's stream, so that no event can follow, and removes its snapshots. May be repeated. */
  async close(id: string, expected: ExpectedRevision): Promise<void> {
    await this.store.closeStream(this.kind.streamOf(id), expected);
    await this.aggregates.removeSnapshotsOf(this.kind.subjectOf(id));
  }

  private ofAccount<Found extends Loaded<State | null>>(found: Found, accountId: string): Found & { state: State } {
    if (found.state?.accountId !== accountId) throw this.kind.notFound();
    return found as Found & { state: State };
  }
}
