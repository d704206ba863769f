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

/** A client that met one of these may never find to the right node again: a deadline, silence, a discovery that failed. */
export function spoilsClient(error: unknown): boolean {
  const { type } = error as { type?: string };
  return type === undefined || isOfType(error, ErrorType.DEADLINE_EXCEEDED);
}

export function isOfType(error: unknown, type: ErrorType): boolean {
  return (error as { type?: ErrorType }).type === type;
}
