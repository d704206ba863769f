/*
 * Collects the answer of an A2A agent to one message. The answer is a message, or a task whose state and artifacts arrive in one result or
 * in many.
 *
 * It owns the state of the task, the texts of its artifacts and the part of the reply that the caller has received. It does not own the
 * requests to the agent or the polling of its tasks (`a2a.protocol.ts`).
 *
 * Invariants:
 * A1. The texts and the ids of all artifacts have at most 1 MiB together. A result that exceeds this ends the turn.
 * A2. A later result for the same artifact replaces its text, or continues it if the result says so. It never adds a second artifact.
 * A3. A message is the whole answer, so its text is the reply whatever the state of a task.
 * A4. Values of an unknown type count as absent: an agent can't make the parsing throw anything but `AgentErrorResponse`.
 */

import { AgentErrorResponse } from '../protocol.ts';
import { REPLY_BYTES_MAX, shortened, type ReplyText, wellFormed } from '../reply-text.ts';

/** The members of messages, tasks and updates that are read. Versions 1.0 and 0.3 share their names. */
interface Message {
  messageId?: unknown;
  role?: unknown;
  parts?: unknown;
}

interface Artifact {
  artifactId?: unknown;
  parts?: unknown;
}

interface Task {
  id?: unknown;
  taskId?: unknown;
  status?: { state?: unknown; message?: unknown };
  artifacts?: unknown;
  history?: unknown;
  artifact?: unknown;
  append?: unknown;
}

/** The states in which a task has ended without a reply, and the HTTP status that each of them counts as. */
const FAILED: Record<string, number> = { failed: 502, rejected: 422, canceled: 422 };
/** The states in which a task has a reply: it has ended, or waits for the next message. */
const REPLIED = new Set(['completed', 'input-required', 'auth-required']);

/** The agent's answer to one message, in one result or in many: a message, or a task with its artifacts. */
export class A2aTurn {
  private messageText: string | null = null;
  private state = '';
  private statusText = '';
  private history: readonly (Message | null)[] = [];
  private readonly artifacts = new Map<string, string>();
  private bytes = 0;
  private taskId: string | null = null;
  private streamedArtifact: string | null = null;

  /** `progress` receives the text of the artifacts as it arrives. */
  constructor(private readonly progress: ReplyText) {}

  /** The id of the task, if the agent answered with one. */
  get task(): string | null {
    return this.taskId;
  }

  /** The id of the last message that the task received; undefined if its history does not contain it. */
  get lastMessage(): unknown {
    return this.lastOf('user')?.messageId;
  }

  get needsInput(): boolean {
    return this.state === 'input-required';
  }

  get hasFailed(): boolean {
    return Object.hasOwn(FAILED, this.state);
  }

  get isOver(): boolean {
    return this.messageText !== null || REPLIED.has(this.state) || this.hasFailed;
  }

  /** Applies a result. Throws `AgentErrorResponse` if it is not a result, and for a reply of more than 1 MiB. */
  apply(result: unknown): void {
    const { kind, ...members } = (result ?? {}) as Record<string, unknown>;
    const message = members['message'] ?? (kind === 'message' ? result : undefined);
    const task = members['task'] ?? members['statusUpdate'] ?? (kind === 'task' || kind === 'status-update' ? result : undefined);
    const update = members['artifactUpdate'] ?? (kind === 'artifact-update' ? result : undefined);
    if (message !== undefined && task === undefined && update === undefined) this.applyMessage(message ?? {});
    else if (task !== undefined) this.applyTask(task ?? {});
    else if (update !== undefined) this.applyUpdate(update ?? {});
    else throw new AgentErrorResponse(200, 'the answer is neither a message nor a task');
  }

  /** Applies a task that was polled. */
  applyTask({ id, taskId, status, artifacts, history }: Task): void {
    this.setTask(id ?? taskId);
    if (typeof status?.state === 'string') this.state = stateOf(status.state);
    this.statusText = partsText((status?.message as Message | null | undefined)?.parts);
    if (Array.isArray(history)) this.history = history as (Message | null)[];
    if (Array.isArray(artifacts)) for (const artifact of artifacts as (Artifact | null)[]) this.storeArtifact(artifact, false);
  }

  /** Returns the reply. Throws `AgentErrorResponse` if the agent failed or refused. */
  reply(): string {
    this.progress.end();
    if (this.messageText !== null) return wellFormed(this.messageText); // A3
    const failed = this.hasFailed ? FAILED[this.state] : undefined;
    if (failed !== undefined) throw new AgentErrorResponse(failed, `the task is ${this.state}: ${shortened(this.statusText) || 'no text'}`);
    const artifacts = [...this.artifacts.values()].filter((text) => text !== '').join('\n\n');
    const asks = this.state !== 'completed';
    const texts = asks ? [this.statusText, artifacts] : [artifacts, this.statusText];
    return wellFormed([...texts, partsText(this.lastOf('agent')?.parts)].find((text) => text !== '') ?? '');
  }

  private applyMessage({ parts }: Message): void {
    this.messageText = partsText(parts);
  }

  private applyUpdate({ taskId, artifact, append }: Task): void {
    this.setTask(taskId);
    const { artifactId, parts } = (artifact ?? {}) as Artifact;
    this.storeArtifact({ artifactId, parts }, append === true);
    const id = String(artifactId);
    if (this.streamedArtifact !== id && !this.progress.isEmpty) this.progress.add('\n\n');
    this.streamedArtifact = id;
    this.progress.add(partsText(parts));
  }

  /** Returns the last message of the history with this role, which version 1.0 writes `ROLE_USER`. */
  private lastOf(role: 'user' | 'agent'): Message | null | undefined {
    return this.history.findLast(
      (message) =>
        String(message?.role)
          .toLowerCase()
          .replace(/^role_/, '') === role,
    );
  }

  private setTask(taskId: unknown): void {
    if (typeof taskId === 'string' && taskId !== '') this.taskId = taskId;
  }

  private storeArtifact(artifact: Artifact | null, isAppended: boolean): void {
    const id = String(artifact?.artifactId);
    const before = this.artifacts.get(id) ?? '';
    const text = partsText(artifact?.parts);
    this.bytes += Buffer.byteLength(text) + (this.artifacts.has(id) ? 0 : Buffer.byteLength(id));
    if (!isAppended) this.bytes -= Buffer.byteLength(before);
    // A1
    if (this.bytes > REPLY_BYTES_MAX) throw new AgentErrorResponse(200, 'the reply is larger than 1 MiB');
    this.artifacts.set(id, isAppended ? before + text : text); // A2
  }
}

/** Returns the name of a state in version 0.3. Version 1.0 writes `TASK_STATE_INPUT_REQUIRED`. */
function stateOf(state: string): string {
  return state
    .toLowerCase()
    .replace(/^task_state_/, '')
    .replaceAll('_', '-');
}

/** Returns the text of parts, and their data as JSON. Files are omitted. */
function partsText(parts: unknown): string {
  if (!Array.isArray(parts)) return '';
  return (parts as ({ text?: unknown; data?: unknown } | null)[])
    .map((part) => (typeof part?.text === 'string' ? part.text : part?.data === undefined ? '' : JSON.stringify(part.data)))
    .join('');
}
