import type { ErrorType } from '@eventstore/db-client';

/** The server, or the connection to it, did not respond in time. */
export class ResponseTimeout extends Error {
  constructor(milliseconds: number) {
    super(`no answer within ${milliseconds} ms`);
    this.name = 'ResponseTimeout';
  }
}

/**
 * The kind of a failed call. `unreachable`: it was not executed. `not_leader`: another node is the leader, and the client finds it by
 * itself. `unknown`: it may have been executed.
 */
export type Fault = 'unreachable' | 'not_leader' | 'unknown';

const neverSent = /No connection established|Name resolution failed|Server Is Not Ready|closed before call started|^Failed to discover/i;

export function faultOf(error: unknown): Fault {
  const { message } = error as Error;
  if (isOfType(error, 'not-leader')) return 'not_leader';
  return isAccessDenied(error) || neverSent.test(message) ? 'unreachable' : 'unknown';
}

/** Returns whether the client could not find a node, and may never find the right one again. */
export function breaksClient(error: unknown): boolean {
  const { type } = error as { type?: string };
  return type === undefined && !isTimeout(error);
}

/**
 * Returns whether the response was late. That alone does not mean that the node is bad, since the server responds late to a repeat while
 * the first append is in flight. If another call fails too, the client is stuck on a bad node.
 */
export function isTimeout(error: unknown): boolean {
  return error instanceof ResponseTimeout || isOfType(error, 'deadline-exceeded');
}

/** Returns whether the server does not know the user, or does not permit the call. */
export function isAccessDenied(error: unknown): boolean {
  return isOfType(error, 'access-denied');
}

export function isOfType(error: unknown, type: `${ErrorType}`): boolean {
  return (error as { type?: string } | undefined)?.type === type;
}
