/** The longest wait of a tool, in seconds. Many clients abandon a call after 60 s. */
export const WAIT_SECONDS = 50;
/** The timeout of a command, in seconds. It leaves time for waking a sleeping container. */
export const COMMAND_SECONDS = 45;

/** The longest text of a result in bytes, without the notes below it. */
export const SHOWN_BYTES_MAX = 64_000;

/** A tool: the operation of a route, and what a model needs to know in addition to the OpenAPI document. */
export interface Tool {
  /** The operation; the name of the tool is its spelling in snake_case. */
  operationId: string;
  title: string;
  /** The description for models. It replaces that of the OpenAPI document, which mentions HTTP. */
  description?: string;
  /** The effect of a call on the account's data. */
  effect: 'reads' | 'changes' | 'destroys';
  /** The value is true if repeating a call changes nothing more. */
  isIdempotent?: true;
  /** The value is true if the route waits until the agent or the computer has settled (`Prefer: wait`). */
  waits?: true;
  /** The form of the result; by default it follows the media type of the response. */
  result?: 'file' | 'log' | 'chat' | 'image' | 'actions';
  /** The operation to call next if this one did not finish in time. */
  next?: string;
  /** The arguments with a smaller bound than on the route. The number is their default and their maximum. */
  bounds?: Readonly<Record<string, number>>;
  /** The arguments of the route that the tool omits, because it sets them itself. */
  omits?: readonly string[];
  /** The operation whose tool replaces this one. This tool is listed only for callers who may not call that one. */
  insteadOf?: string;
}
