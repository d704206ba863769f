import { ownerOf, sandboxIdOf, type SandboxOwner } from '../../sandboxes/sandbox-id.ts';
import type { Sealed } from '../../crypto/keyring.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import type { Decider } from '../../eventsourcing/event-store/event-definition.ts';
import type { FileChange, FileChangeFailure, FileEvent } from './files.events.ts';

/** The most concurrent changes of one agent's files, including uploads. */
export const CHANGES_MAX = 32;
/** The number of changes whose ids are remembered, so that a repeated request does not repeat one. */
export const LATEST_MAX = 100;

interface RunningChange {
  id: string;
  /** The time (ISO 8601) by which the change is certainly over, even if the process that made it died. */
  endsBy: string;
}

/** The changes that callers make to the files of one agent. */
interface FileChanges {
  agentId: string;
  running: RunningChange[];
  /** The ids of the latest changes that may have taken effect, oldest first. */
  latest: string[];
}

export type FileChangesState = FileChanges | null;

/** The result of a change. */
export type FileOutcome =
  | { change: 'write'; size: number; created: boolean }
  | { change: 'upload'; size: number; paths: Sealed }
  | { change: 'mkdir'; created: boolean }
  | { change: 'move' }
  | { change: 'delete' };

export type FileCommand =
  | { type: 'StartFileChange'; agentId: string; changeId: string; change: FileChange; paths: Sealed; endsBy: string }
  | { type: 'EndFileChange'; changeId: string; outcome: FileOutcome }
  | { type: 'FailFileChange'; changeId: string; failure: FileChangeFailure }
  | { type: 'RecordDownload'; agentId: string; paths: Sealed; size: number | null };

function decide(command: FileCommand, state: FileChangesState, now: Date): FileEvent[] {
  switch (command.type) {
    case 'StartFileChange':
      return start(command, state, now);
    case 'RecordDownload': {
      const { agentId, paths, size } = command;
      return [{ type: 'FileDownloaded', data: { ...ownerOf(agentId), paths, size } }];
    }
    case 'EndFileChange':
    case 'FailFileChange': {
      if (state === null || !state.running.some(({ id }) => id === command.changeId)) return [];
      const ids = { ...ownerOf(state.agentId), change_id: command.changeId };
      if (command.type === 'FailFileChange') return [{ type: 'FileChangeFailed', data: { ...ids, failure: command.failure } }];
      return [factOf(command.outcome, ids)];
    }
  }
}

function start(command: Extract<FileCommand, { type: 'StartFileChange' }>, state: FileChangesState, now: Date): FileEvent[] {
  const { changeId: change_id, change, paths, endsBy: ends_by } = command;
  if (state?.latest.includes(change_id))
    throw new ProblemError(
      'invalid_state',
      'The change of this Idempotency-Key was begun before, and is not made again; its outcome is unknown. Look at the files.',
    );
  const owner = ownerOf(command.agentId);
  const running = state?.running ?? [];
  const over = running.filter(({ endsBy }) => Date.parse(endsBy) <= now.getTime());
  if (running.length - over.length >= CHANGES_MAX)
    throw new ProblemError('rate_limited', `${CHANGES_MAX} changes are made to this agent’s files already.`, { retryAfterSeconds: 1 });
  return [
    ...over.map(({ id }): FileEvent => ({ type: 'FileChangeFailed', data: { ...owner, change_id: id, failure: 'unknown' } })),
    { type: 'FileChangeStarted', data: { ...owner, change_id, change, paths, ends_by } },
  ];
}

function factOf(outcome: FileOutcome, ids: SandboxOwner & { change_id: string }): FileEvent {
  switch (outcome.change) {
    case 'write':
      return { type: 'FileWritten', data: { ...ids, size: outcome.size, created: outcome.created } };
    case 'upload':
      return { type: 'FileUploaded', data: { ...ids, size: outcome.size, paths: outcome.paths } };
    case 'mkdir':
      return { type: 'DirectoryCreated', data: { ...ids, created: outcome.created } };
    case 'move':
      return { type: 'FileMoved', data: ids };
    case 'delete':
      return { type: 'FileDeleted', data: ids };
  }
}

function evolve(state: FileChangesState, event: FileEvent): FileChangesState {
  const changes = state ?? { agentId: sandboxIdOf(event.data), running: [], latest: [] };
  if (event.type === 'FileDownloaded') return changes;
  const { change_id: id } = event.data;
  switch (event.type) {
    case 'FileChangeStarted': {
      const running = [...changes.running, { id, endsBy: event.data.ends_by }];
      return { ...changes, running, latest: [...changes.latest, id].slice(-LATEST_MAX) };
    }
    case 'FileChangeFailed': {
      const ended = without(changes, id);
      // A refused change did nothing, so it may be requested again.
      return event.data.failure === 'refused' ? { ...ended, latest: ended.latest.filter((latest) => latest !== id) } : ended;
    }
    case 'FileWritten':
    case 'FileUploaded':
    case 'DirectoryCreated':
    case 'FileMoved':
    case 'FileDeleted':
      return without(changes, id);
    default:
      event satisfies never;
      return changes;
  }
}

function without(changes: FileChanges, id: string): FileChanges {
  return { ...changes, running: changes.running.filter((change) => change.id !== id) };
}

export const filesDecider: Decider<FileChangesState, FileCommand, FileEvent> = {
  initialState: () => null,
  decide,
  evolve,
  snapshot: { name: 'files', version: 1, subject: (changes) => changes?.agentId ?? null },
};
