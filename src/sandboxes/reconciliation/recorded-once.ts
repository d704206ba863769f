import { v5 as uuidv5 } from 'uuid';

import { systemContext, type CommandContext } from '../../kernel/context/command-context.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { ReadStreamOptions, StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import type { Sandbox } from '../lifecycle/sandbox.rules.ts';
import type { RecordedSandbox } from './container-kind.ts';

/** The number of events that are searched for the cause of a record. */
const CAUSE_WITHIN = 20;
const RECORD_NAMESPACE = 'c7d1f1c4-5b0a-4d5e-8c57-2f3f1e9b7a60';

/** The settings with which a saga writes to the streams of a kind. */
export interface Recording<C> {
  saga: string;
  /** The kind's service, through which its streams are reached. */
  streams: {
    execute(
      sandboxId: string,
      command: C,
      context: CommandContext,
      options: { expectedRevision: number; eventId: (event: { type: string }, index: number) => string },
    ): Promise<unknown>;
    events(sandboxId: string, options: ReadStreamOptions): AsyncIterable<StoredEvent>;
  };
  /** Returns whether an event of the type begins a transition, and so causes what the sandbox does after it. */
  beginsTransition(type: string): boolean;
}

/**
 * Executes a saga's command at the revision that it was decided on. Event ids are derived from the position in the stream, so that a record that is
 * repeated after a crash is the same event. Returns false, and writes nothing, if the stream has changed since it was read.
 */
export async function executeOnce<C>(on: Recording<C>, sandboxId: string, seen: RecordedSandbox<Sandbox>, command: C): Promise<boolean> {
  const { state, revision } = seen;
  const context = systemContext(on.saga, state.accountId, await causeAt(on, sandboxId, revision));
  const eventId = (event: { type: string }, index: number) => uuidv5(`${sandboxId}:${revision}:${event.type}:${index}`, RECORD_NAMESPACE);
  try {
    await on.streams.execute(sandboxId, command, context, { expectedRevision: revision, eventId });
    return true;
  } catch (error) {
    if (error instanceof ProblemError && error.code === 'revision_mismatch') return false;
    throw error;
  }
}

/** Returns the id of the event that began the transition in progress at the revision, or null if none of the latest events did. */
async function causeAt<C>(on: Recording<C>, sandboxId: string, revision: number): Promise<string | null> {
  const earlier = on.streams.events(sandboxId, { from: revision, backwards: true, limit: CAUSE_WITHIN });
  for await (const { id, type } of earlier) if (on.beginsTransition(type)) return id;
  return null;
}
