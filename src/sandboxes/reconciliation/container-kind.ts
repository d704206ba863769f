import type { ContainerSpec, ContainerState, ContainerView } from '../../runtime/container.ts';
import type { ImageGone } from '../../runtime/runtime.errors.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { KnownSandbox, SandboxOfAccount } from '../lifecycle/known-sandbox.ts';
import type { ActualState, Order, StepRules, Step } from '../lifecycle/steps.rules.ts';
import type { SandboxKind } from '../sandbox-id.ts';
import type { Pass } from './pass.ts';

/*
 * A feature describes its kind of sandboxes by these interfaces, so that the reconciler can bring their containers to the desired state. `S` is the
 * state of a sandbox, `R` are its records, and `Own` are the steps that only this kind takes.
 */

/** A sandbox as of a revision of its stream. */
export interface RecordedSandbox<S> {
  state: S;
  revision: number;
}

/** The rules of the kind. All of them are pure. */
export interface KindRules<S extends Sandbox, R, Own> {
  /** Returns the next step that brings the sandbox's container to the desired state in its stream. */
  nextStep(sandbox: S, actual: ActualState, rules: StepRules, now: Date): Step<R, Own>;
  /** Returns the earliest of the sandbox's own deadlines, at which to look again without an event; null if it has none. */
  nextCheckAt(sandbox: S, actual: ActualState, rules: StepRules, now: Date): Date | null;
  /** Returns whether the sandbox is on its way from one status to another, which has a deadline. */
  isInTransit(sandbox: S): boolean;
  /** Returns whether the deletion of the sandbox has been requested and goes on. */
  isBeingDeleted(sandbox: S): boolean;
  /** Returns whether the sandbox is deleted, so that its stream can be closed once nothing of it is on the engine. */
  isGone(sandbox: S): boolean;
  /** Returns whether what was decided for the sandbox before does not hold any more. */
  isOutdated(before: S, now: S): boolean;
  /** Returns the status of the sandbox, as operators see it. */
  statusOf(sandbox: S): string;
  /** Returns the states in which a settled sandbox's container may be; an empty list means that it need not exist. */
  wantedStates(sandbox: S): ContainerState[];
  /** Returns whether the last observation may be used again, because only events of the stream can interrupt the transition. */
  mayReuseObservation(sandbox: S): boolean;
  /** Returns whether the transition waits, until its deadline, for an engine that can do what this one can't. */
  waitsForEngine(sandbox: S): boolean;
  /** Returns the record of a transition that failed for this reason. */
  failure(sandbox: S, kind: 'timeout' | 'runtime', reason: string): R;
}

/** The make and the contents of the kind's containers. */
export interface KindContainers<S extends Sandbox> {
  specOf(sandboxId: string, sandbox: S): Promise<ContainerSpec>;
  /** Prepares the container for its start, and copies into one that was never started what it needs. May be repeated. */
  prepare(sandboxId: string, sandbox: S, container: ContainerView): Promise<void>;
  /** Returns whether the container became ready within the time, and false if it did not or the signal aborted the wait. */
  isReady(sandbox: S, container: ContainerView, withinMs: number, signal: AbortSignal): Promise<boolean>;
  /** Returns what explains why the container did not become ready, as the end of a sentence; null if nothing does. */
  explainUnready(sandbox: S, container: ContainerView): Promise<string | null>;
  stopGraceSeconds(sandbox: S): number;
  /** Captures the rest of the output of a container that is about to be removed. */
  drain(sandbox: S, container: ContainerView): Promise<void>;
  /** Makes the image available again that the engine has lost. Throws `gone` if that is not possible. */
  pullAgain(sandbox: S, gone: ImageGone, signal: AbortSignal): Promise<void>;
  /** Deletes what is stored for the containers of a deleted sandbox. May be repeated. */
  onDeleted(sandboxId: string): Promise<void>;
}

/** The streams of the kind. What returns false has written nothing, because the stream has changed since it was read. */
export interface KindRecords<S extends Sandbox> {
  /** Returns the newest state; null if the log does not know the sandbox. */
  load(sandboxId: string): Promise<RecordedSandbox<S> | null>;
  /** Requests a transition that the rules require without a caller's request. */
  order(sandboxId: string, seen: RecordedSandbox<S>, order: Order): Promise<boolean>;
  /** Destroys the data key of the sandbox, then records that it is deleted. */
  erase(sandboxId: string, seen: RecordedSandbox<S>): Promise<boolean>;
  /** Records that the volume holds more than it may, for the saga of that name. */
  recordFull(sandboxId: string, accountId: string, reason: string, saga: string): Promise<void>;
  /** Returns whether the work that claimed an image under the id goes on, so that no read model tells yet that the image is needed. */
  isClaiming(sandboxId: string, claimId: string): Promise<boolean>;
  /** Closes the stream of a deleted sandbox, so that nothing can be appended, and removes its snapshots. May be repeated. */
  close(sandboxId: string, seen: RecordedSandbox<S>): Promise<void>;
}

/** The step in progress. */
export interface PassWork<S extends Sandbox, R> {
  readonly pass: Pass;
  readonly seen: RecordedSandbox<S>;
  /** Returns whether the state that the step was decided on has changed, so that the step is stale. */
  readonly isStale: () => Promise<boolean>;
  /** Returns whether the step is stale or the transition is out of time; the next look tells which. */
  readonly isOver: () => Promise<boolean>;
  /** Records an outcome. `container` is the one that it is about, whose last output may explain a failure. */
  readonly record: (seen: RecordedSandbox<S>, record: R, container: ContainerView | null) => Promise<boolean>;
  /**
   * Appends the record of a step that runs at the same time. It needs no revision, so it is appended even if other events came in between.
   */
  readonly recordMeanwhile: (record: R | undefined) => Promise<void>;
}

/** The rows of the kind's sandboxes in its read models. */
export interface KindRows<S extends Sandbox> {
  /** The names of the read models that tell which images are needed. */
  readonly readModels: readonly string[];
  /** Returns a page of the sandboxes of all accounts, ordered by id, that follow the one with the id. */
  page(after: string | null, limit: number): Promise<KnownSandbox<S>[]>;
  /** Returns the sandboxes of all accounts whose containers may have written to their volumes since then, 20,000 at most. */
  thatMayWrite(since: Date): Promise<SandboxOfAccount[]>;
  /**
   * Returns the sandboxes of all accounts that may need work on the engine or have something to see there. It omits those at rest, of which there
   * may be very many.
   */
  live(): Promise<string[]>;
  /** Returns those of the images, given by digest or id, that sandboxes of the kind need according to its read models. */
  neededImages(digests: readonly string[]): Promise<ReadonlySet<string>>;
}

/** The part of the steps that is the kind's own. */
export interface KindSteps<S extends Sandbox, R, Own> {
  /** Records an outcome; see `PassWork.record`. Returns false if nothing was written, because the stream has changed since it was read. */
  record(pass: Pass, seen: RecordedSandbox<S>, record: R, container: ContainerView | null): Promise<boolean>;
  /** Does what is left to do once the container is ready, and records that. Returns false if it became stale. */
  whenReady(work: PassWork<S, R>, container: ContainerView): Promise<boolean>;
  /** Executes a step of the kind's own. Returns false if it became stale. */
  executeOwn(work: PassWork<S, R>, step: Own): Promise<boolean>;
}

/** A kind of sandboxes that are compared with the engine and measured, and whose images are kept. */
export interface FollowedKind<S extends Sandbox = Sandbox> {
  readonly kind: SandboxKind;
  /** The name of the saga that reconciles them, whose keys are their ids. */
  readonly saga: string;
  readonly rules: KindRules<S, unknown, unknown>;
  readonly records: KindRecords<S>;
  readonly rows: KindRows<S>;
}

/** A kind of sandboxes whose containers are reconciled. */
export interface ContainerKind<S extends Sandbox, R extends { type: string }, Own extends { do: string } = never> extends FollowedKind<S> {
  readonly rules: KindRules<S, R, Own>;
  readonly containers: KindContainers<S>;
  readonly steps: KindSteps<S, R, Own>;
}
