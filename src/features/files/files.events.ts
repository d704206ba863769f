import type { Sealed } from '../../crypto/keyring.ts';
import { defineEvent, type EventsOf } from '../../eventsourcing/event-store/event-definition.ts';
import type { SandboxOwner } from '../../sandboxes/index.ts';

export type FileChange = 'write' | 'upload' | 'mkdir' | 'move' | 'delete';

/** The reason why a change that was begun did not happen, or why it is not known whether it did. */
export type FileChangeFailure =
  /** It was refused; nothing changed. */
  | 'refused'
  /** The caller went away, so nothing was kept of what had arrived. */
  | 'canceled'
  /** The container ended, or the engine did not answer. */
  | 'interrupted'
  /** The process that made it ended before it recorded the outcome. */
  | 'unknown';

type OfChange = SandboxOwner & { change_id: string };

/** Paths may hold personal data, so they are encrypted with the agent's data key; what the files hold is not recorded. */
export const fileEvents = {
  FileChangeStarted: defineEvent<OfChange & { change: FileChange; paths: Sealed; ends_by: string }>()(
    'FileChangeStarted',
    ({ change }) => STARTED[change],
  ),
  FileWritten: defineEvent<OfChange & { size: number; created: boolean }>()('FileWritten', ({ size, created }) =>
    created ? `Made a file of ${size} bytes` : `Replaced a file by one of ${size} bytes`,
  ),
  FileUploaded: defineEvent<OfChange & { size: number; paths: Sealed }>()('FileUploaded', ({ size }) => `Stored the file of ${size} bytes`),
  DirectoryCreated: defineEvent<OfChange & { created: boolean }>()('DirectoryCreated', ({ created }) =>
    created ? 'Made the directory' : 'The directory was there already',
  ),
  FileMoved: defineEvent<OfChange>()('FileMoved', () => 'Moved the file'),
  FileDeleted: defineEvent<OfChange>()('FileDeleted', () => 'Deleted the file'),
  FileChangeFailed: defineEvent<OfChange & { failure: FileChangeFailure }>()('FileChangeFailed', ({ failure }) => FAILED[failure]),
  FileDownloaded: defineEvent<SandboxOwner & { paths: Sealed; size: number | null }>()('FileDownloaded', ({ size }) =>
    size === null ? 'Began to download a directory' : `Began to download a file of ${size} bytes`,
  ),
};

const STARTED: Record<FileChange, string> = {
  write: 'Asked to write a file',
  upload: 'Began to upload a file',
  mkdir: 'Asked for a directory',
  move: 'Asked to move a file',
  delete: 'Asked to delete a file',
};

const FAILED: Record<FileChangeFailure, string> = {
  refused: 'The change of files was refused; nothing changed',
  canceled: 'The change of files ended early, because its caller went away',
  interrupted: 'The change of files was interrupted, because the container ended or the engine did not answer',
  unknown: 'The outcome of the change of files is unknown, because the service ended meanwhile',
};

export type FileEvent = EventsOf<typeof fileEvents>;
