import type { Point } from '../actions/canonical-actions.ts';

/** The state of a desktop's input between two batches. */
export interface LeftInput {
  /** The place of the pointer; null if it is not known. */
  pointer: Point | null;
  /** The bits of the buttons that stay pressed. */
  buttons: number;
}

/** The right to put input into a desktop, until `end` is called. */
export interface Turn {
  /** The state of the input as another process has left it; null if no other process had the turn meanwhile. */
  leftInput: LeftInput | null;
  /** Aborts when another process may have the turn. */
  lost: AbortSignal;
  end(left: LeftInput): Promise<void>;
}
