import type { Point } from '../actions/canonical-actions.ts';

/** The state of a desktop's input between two batches. */
export interface LeftInput {
  /** The place of the pointer; null if it is not known. */
  pointer: Point | null;
  /** The bits of the buttons that stay down. */
  buttons: number;
}

/** The right to put input into a desktop, until `end` is called. */
export interface Turn {
  /** The input as somebody else has left it; null if nobody else had the turn meanwhile. */
  left: LeftInput | null;
  /** Aborts when somebody else may have the turn. */
  lost: AbortSignal;
  end(left: LeftInput): Promise<void>;
}
