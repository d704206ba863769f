import type { CommandContext } from '../../kernel/context/command-context.ts';
import type { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { CommandResult } from '../../eventsourcing/aggregates/aggregates.ts';
import type { Loaded } from '../../eventsourcing/aggregates/dated-state.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { SandboxKind } from '../sandbox-id.ts';

/** A caller's need for an awake sandbox, and its reason. */
export interface Need {
  sandboxId: string;
  accountId: string;
  /** The trigger that the wake is recorded with. */
  trigger: string;
  context: CommandContext;
  /** The signal that ends the wait until the sandbox is awake. */
  signal: AbortSignal;
  /** The value is false if the need is refused instead of waking a sandbox that sleeps. */
  wake?: boolean;
}

/**
 * The reason why there is no container to work in: the caller does not want the sandbox woken, it did not wake in time, or its container is
 * gone.
 */
export type NotAwake = 'asleep' | 'late' | 'gone';

/** The operations that the wake gate needs of a kind of sandboxes. The kind registers itself with `Wakeables`. */
export interface Wakeable<S extends Sandbox = Sandbox> {
  readonly kind: SandboxKind;
  /** Returns the newest state, also of another account's sandbox or of a deleted one; null if there never was one. */
  find(sandboxId: string): Promise<Loaded<S | null>>;
  /** Returns the sandbox if the account may use it. Throws the kind's refusal of an unknown one. */
  requireOwned(sandbox: S | null, accountId: string): S;
  /** Returns whether the container is up and ready. */
  isAwake(sandbox: S): boolean;
  /** Requests a wake of the sandbox, if it sleeps. Throws the error that this kind of sandbox defines if the sandbox must not be woken. */
  wake(need: Need): Promise<CommandResult<S | null>>;
  /** Waits until the probe returns a result. It is called now and after each event of the sandbox. See `EventWaits.until`. */
  until<T>(sandboxId: string, probe: () => Promise<T | undefined>, options: { timeoutMs: number }): Promise<T | null>;
  /** Returns the time in seconds within which a wake of the sandbox must have ended. */
  wakeSeconds(sandbox: S): number;
  notAwake(why: NotAwake): ProblemError;
}
