import type { ErrorType } from '@eventstore/db-client';

/** The server, or the connection to it, gave no answer in time. */
export class ResponseTimeout extends Error {
  constructor(milliseconds: number) {
    super(`no answer within ${milliseconds} ms`);
    this.name = 'ResponseTimeout';
  }
}

/**
 * The kind of a failed call. `unreachable`: it was not carried out. `not_leader`: another node has to be asked, which the client finds by
 * itself. `unknown`: it may have been carried out.
 */
export type Fault = 'unreachable' | 'not_leader' | 'unknown';

const neverSent = /No connection established|Name resolution failed|Server Is Not Ready|closed before call started|^Failed to discover/i;

export function faultOf(error: unknown): Fault {
  const { message } = error as Error;
  if (isOfType(error, 'not-leader')) return 'not_leader';
  return isAccessDenied(error) || neverSent.test(message) ? 'unreachable' : 'unknown';
}

/** Returns true if the client could not find a node, and may never find the right one again. */
export function breaksClient(error: unknown): boolean {
  const { type } = error as { type?: string };
  return type === undefined && !isTimeout(error);
}

/**
 * Returns true if the answer was late. That alone does not condemn the node, since the server answers a repeat late while the first append
 * is in flight; if another call fails too, the client is stuck on a bad node.
 */
export function isTimeout(error: unknown): boolean {
  return error instanceof ResponseTimeout || isOfType(error, 'deadline-exceeded');
}

/** Returns true if the server does not know the user, or does not let the user do that. */
export function isAccessDenied(error: unknown): boolean {
  return isOfType(error, 'access-denied');
}

export function isOfType(error: unknown, type: `${ErrorType}`): boolean {
  return (error as { type?: string } | undefined)?.type === type;
}
