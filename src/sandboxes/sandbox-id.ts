import { categoryOf, idOf, type StoredEvent } from '../eventsourcing/event-store/event-store.ts';

/*
 * A sandbox has one id everywhere outside of its own aggregate: on the engine, in holds, for its data key, for commands and files. An agent's is the
 * agent's id, a UUID. A computer's is `computer-<uuid>`, which is also the name of its stream (decisions/0061).
 */

export type SandboxKind = 'agent' | 'computer';

const COMPUTER = 'computer-';

/** The member of an event or a row that names whose sandbox it is about. */
export type SandboxOwner = { agent_id: string } | { computer_id: string };

/** Returns the kind of the sandbox with the id. */
export function kindOf(sandboxId: string): SandboxKind {
  return sandboxId.startsWith(COMPUTER) ? 'computer' : 'agent';
}

/** Returns the sandbox id of the computer. */
export function computerSandbox(computerId: string): string {
  return COMPUTER + computerId;
}

/** Returns the id of the computer with the sandbox id. */
export function computerIdOf(sandboxId: string): string {
  return sandboxId.slice(COMPUTER.length);
}

/** Returns the id of the computer that the event names, by its stream or by its data; null if it names none. */
export function computerOf({ stream, data }: Pick<StoredEvent, 'stream' | 'data'>): string | null {
  if (categoryOf(stream) === 'computer') return idOf(stream);
  return typeof data.computer_id === 'string' ? data.computer_id : null;
}

export function ownerOf(sandboxId: string): SandboxOwner {
  return kindOf(sandboxId) === 'computer' ? { computer_id: computerIdOf(sandboxId) } : { agent_id: sandboxId };
}

/** Returns the sandbox id of the agent or the computer that the data names. */
export function sandboxIdOf(owner: SandboxOwner): string {
  return 'computer_id' in owner ? computerSandbox(owner.computer_id) : owner.agent_id;
}

/** Returns the name of the sandbox's own stream. */
export function streamOf(sandboxId: string): string {
  return kindOf(sandboxId) === 'agent' ? `agent-${sandboxId}` : sandboxId;
}

/** Returns the id of the sandbox whose own stream this is; null for every other stream. */
export function sandboxOfStream(stream: string): string | null {
  switch (categoryOf(stream)) {
    case 'agent':
      return idOf(stream);
    case 'computer':
      return stream;
    default:
      return null;
  }
}
