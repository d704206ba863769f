import type { Duplex } from 'node:stream';

import type { CommandContext } from '../../../kernel/context/command-context.ts';

/** Opens a connection to the desktop of an awake computer. The signal ends the wait for it. */
export type Dial = (signal: AbortSignal) => Promise<Duplex>;

/** A viewer's request for an awake computer. */
export interface ViewNeed {
  computerId: string;
  accountId: string;
  context: CommandContext;
  /** Aborts the wait for the computer to be awake. */
  signal: AbortSignal;
  /** The value false refuses a computer that is not awake with `computer_asleep`. */
  wake?: boolean;
}

/** The ability of viewers to use a computer, or the reason why they can't. */
export type ComputerAvailability =
  | 'usable'
  /** It sleeps, or it has failed. */
  | 'asleep'
  | 'deleted';

/** The port through which viewers use computers. */
export abstract class ViewedDesktops {
  /** Throws `computer_not_found` if the account has no such computer. */
  abstract requireOwned(computerId: string, accountId: string): Promise<void>;
  /**
   * Runs the work while the computer is awake, and wakes it first if it sleeps. Throws `computer_not_found`, and the refusals of a wake.
   */
  abstract whileAwake<T>(need: ViewNeed, work: (dial: Dial) => Promise<T>): Promise<T>;
  /**
   * Keeps a watched computer awake after a connection or an input: it counts as used for three times its idle time, after which the idle
   * time starts.
   */
  abstract keepAwake(computerId: string): Promise<void>;
  /** Ends that for a computer that is not watched any more: it counts as used until now. */
  abstract stopKeepingAwake(computerId: string): Promise<void>;
  abstract availabilityOf(computerId: string): Promise<ComputerAvailability>;
  /** Updates the place of the pointer after a viewer moved it. */
  abstract movePointer(computerId: string, x: number, y: number): void;
}
