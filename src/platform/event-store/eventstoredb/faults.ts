import { ErrorType } from '@eventstore/db-client';

/** The server, or the way to it, said nothing in time. */
export class Silence extends Error {
  constructor(milliseconds: number) {
    super(`no answer within ${milliseconds} ms`);
    this.name = 'Silence';
  }
}

/**
 * What a failed call means. `unreachable`: it never got to where it could do anything. `not_leader`: another node has to be
 * asked, and the client finds it by itself. `unknown`: it may have been done.
 */
export type Fault = 'unreachable' | 'not_leader' | 'unknown';

const neverSent = /No connection established|Name resolution failed|Server Is Not Ready|closed before call started|^Failed to discover/i;

export function faultOf(error: unknown): Fault {
  const { message } = error as Error;
  if (isOfType(error, ErrorType.NOT_LEADER)) return 'not_leader';
  return isOfType(error, ErrorType.ACCESS_DENIED) || neverSent.test(message) ? 'unreachable' : 'unknown';
}

/** The client could not find a node, and may never find the right one again. */
export function spoilsClient(error: unknown): boolean {
  const { type } = error as { type?: string };
  return type === undefined && !isLate(error);
}

/** A server answers a repeat late whose first append is under way; where another call fails too, the client hangs on a node that is no good. */
export function isLate(error: unknown): boolean {
  return error instanceof Silence || isOfType(error, ErrorType.DEADLINE_EXCEEDED);
}

export function isOfType(error: unknown, type: ErrorType): boolean {
  return (error as { type?: ErrorType }).type === type;
}
