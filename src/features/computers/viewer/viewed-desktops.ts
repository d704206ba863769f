import type { Duplex } from 'node:stream';

import type { CommandContext } from '../../../kernel/context/command-context.ts';

/** Opens a connection to the desktop of an awake computer. The signal ends the wait for it. */
export type Dial = (signal: AbortSignal) => Promise<Duplex>;

/** A viewer's need for an awake computer. */
export interface ViewNeed {
  computerId: string;
  accountId: string;
  context: CommandContext;
  /** The signal that ends the wait for the computer to be awake. */
  signal: AbortSignal;
  /** False refuses with `computer_asleep` what would have to wake it. */
  wake?: boolean;
}

/** The state of a computer, as far as it matters to its viewers. */
export type ComputerFate =
  | 'usable'
  /** It sleeps, or it has failed. */
  | 'asleep'
  | 'deleted';

/** The desktops that people see: what viewers need of computers. */
export abstract class ViewedDesktops {
  /** Throws `computer_not_found` if the account has no such computer. */
  abstract requireOwned(computerId: string, accountId: string): Promise<void>;
  /**
   * Runs the work while the computer is awake, and wakes it first if it sleeps. Throws `computer_not_found`, and the refusals of a wake.
   */
  abstract whileAwake<T>(need: ViewNeed, work: (dial: Dial) => Promise<T>): Promise<T>;
  /** Lets a computer that somebody sees, who has just come or sent input, count as used for three times its idle time, after which that begins. */
  abstract keepAwake(computerId: string): Promise<void>;
  /** Lets a computer that nobody sees any more count as used until now. */
  abstract keepAwakeNoLonger(computerId: string): Promise<void>;
  abstract fateOf(computerId: string): Promise<ComputerFate>;
  /** Tells whoever acts on the computer where somebody moved its pointer. */
  abstract movePointer(computerId: string, x: number, y: number): void;
}
