/** The longest wait of a tool for what it has asked for, in seconds. Many clients give a call up after 60 s. */
export const WAIT_SECONDS = 50;
/** The longest time of a command, in seconds. It leaves some for the wake of a container that sleeps. */
export const COMMAND_SECONDS = 45;

/** The largest text of a result in bytes, without the notes that stand below it. */
export const SHOWN_BYTES_MAX = 64_000;

/** A tool: the name of a route's operation, and what a model has to know of it besides what the OpenAPI document says. */
export interface Tool {
  /** The operation; the name of the tool is its spelling in snake_case. */
  operationId: string;
  title: string;
  /** The description for models, in place of that of the OpenAPI document, which speaks of HTTP as well. */
  description?: string;
  /** The effect of a call on the account's data. */
  effect: 'reads' | 'changes' | 'destroys';
  /** True if a repeated call changes nothing more. */
  isIdempotent?: true;
  /** True if the route waits until the agent or the computer has settled (`Prefer: wait`). */
  waits?: true;
  /** The form of the result; by default it follows the media type of the response. */
  result?: 'file' | 'log' | 'chat' | 'image' | 'actions';
  /** The operation to call next if this one was not over in time. */
  next?: string;
  /** The arguments that are smaller here than on the route, with the number that is their default and their maximum. */
  bounds?: Readonly<Record<string, number>>;
  /** The arguments of the route that the tool does not take, since it chooses them itself. */
  leavesOut?: readonly string[];
  /** The operation whose tool makes this one superfluous: it is listed for callers who may not call that one. */
  insteadOf?: string;
}
