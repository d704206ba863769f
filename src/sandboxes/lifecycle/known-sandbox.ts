import type { Sandbox } from './sandbox.rules.ts';

/** A sandbox as read from its row. */
export interface KnownSandbox<S extends Sandbox = Sandbox> {
  sandboxId: string;
  sandbox: S;
  lastActiveAt: Date | null;
  /** True if work is in flight for the sandbox. */
  held: boolean;
  /** See `ActualState.abandonedBy`. */
  abandonedBy: string | null;
}

/** A sandbox of any account, and the account. */
export interface SandboxOfAccount {
  sandboxId: string;
  accountId: string;
}
