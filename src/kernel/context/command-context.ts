import type { Actor } from './actor.ts';

/** The request that caused a command; it becomes the metadata of the events. */
export interface CommandContext {
  actor: Actor;
  accountId: string | null;
  requestId: string | null;
  causationId: string | null;
  ip: string | null;
  /** The position of the log's head when the request arrived, up to which every event has been received here; absent if it is unknown. */
  seenUpTo?: string;
  /** The position of the last event that was written under this context, or shown to its caller, for read-your-writes. See `noteWritten`. */
  readonly writtenUpTo?: string;
}

/**
 * Notes the position up to which the request has written, or up to which its response shows what there is, so that the caller's next read is
 * not older. Nothing else sets `writtenUpTo`.
 */
export function noteWritten(context: CommandContext, position: string): void {
  const noted: { writtenUpTo?: string } = context;
  if (noted.writtenUpTo === undefined || position > noted.writtenUpTo) noted.writtenUpTo = position;
}

/** Returns the context of commands that the service issues by itself; `name` names the part of the service. */
export function systemContext(name: string, accountId: string | null, causationId: string | null = null): CommandContext {
  return {
    actor: { kind: 'system', id: name, name },
    accountId,
    requestId: null,
    causationId,
    ip: null,
  };
}
