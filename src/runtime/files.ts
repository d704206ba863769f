import type { Readable } from 'node:stream';

/** The entries of a folder that one list returns at most. */
export const FILE_ENTRIES_MAX = 10_000;
/** The time after which a transfer ends, however slow its other side is, ms. */
export const FILE_TRANSFER_MS_MAX = 600_000;
/** The time that every other call may take, ms. The removal of a large folder takes the longest. */
export const FILE_CALL_MS_MAX = 120_000;

export type FileKind = 'file' | 'directory' | 'link' | 'other';

export interface FileEntry {
  name: string;
  /** The kind of the entry itself: a link is not followed. */
  kind: FileKind;
  /** The size in bytes. */
  size: number;
  /** The time of the last change of the content, in Unix seconds. */
  mtime: number;
}

export interface FileList {
  /** The mount point of the volume. */
  root: string;
  path: string;
  /** The entries, sorted by name. Names that are no UTF-8 have U+FFFD for the invalid bytes. */
  entries: FileEntry[];
  /** The value is true if the folder has more entries than `FILE_ENTRIES_MAX`. */
  truncated: boolean;
}

/** A part of a file, from the byte `start` to the byte `end`, both included. */
export interface FileRange {
  start: number;
  end: number;
}

export interface FileRead {
  path: string;
  kind: 'file' | 'directory';
  /** The size of the whole file in bytes; null for a folder. */
  size: number | null;
  /** The time of the last change of the content, in Unix seconds. */
  mtime: number;
  /**
   * The bytes of the file or of the range, exactly as many as were announced, or a plain tar of the folder. A file that shrinks meanwhile
   * ends it with an error. Its destruction ends the work in the container.
   */
  content: Readable;
}

/** The content of an agent's volumes. */
export interface VolumeSize {
  /** The space, `Infinity` if no program can measure it. */
  bytes: number;
  /** The number of files, folders and links; `Infinity` if it is larger than what was to be counted. */
  files: number;
}

export interface MeasureBounds {
  withinMs: number;
  filesMax: number;
}

/** Takes the room for so many more bytes of a write. Returns whether there was as much. */
export type ReserveBytes = (bytes: number) => boolean | Promise<boolean>;

export interface FileWriteOptions {
  /** The bytes of the largest acceptable file; a larger one is `too_large`. */
  maxBytes: number;
  /** Takes the room for the bytes before they are written; null stands for no limit. If there is none, the write is `volume_full`. */
  reserve: ReserveBytes | null;
  /** The treatment of an existing file. A folder is never replaced. */
  onTaken: 'replace' | 'refuse';
  /** Creates the missing folders above the file. */
  parents: boolean;
  /** Lets everybody run the file: a new one has the mode 755. Otherwise a new one has 644, and an existing one keeps its own. */
  executable?: boolean;
  signal: AbortSignal;
}

export type FileRefusal =
  | 'not_found'
  | 'exists'
  | 'outside_volume'
  | 'volume_root'
  | 'not_a_directory'
  | 'is_a_directory'
  /** It is neither a regular file nor a folder. */
  | 'not_a_file'
  | 'not_permitted'
  | 'too_large'
  | 'volume_full'
  | 'invalid_path';

/** The call on a file was refused, and nothing was changed. */
export class FileRefused extends Error {
  constructor(
    readonly reason: FileRefusal,
    options?: ErrorOptions,
  ) {
    super(`the call on the file was refused: ${reason}`, options);
    this.name = 'FileRefused';
  }
}

/**
 * The files of a running container, which is given by its handle. Paths are as the caller gave them; relative ones start at the volume's root. Everything but `read` is
 * confined to the volume: all symbolic links above the last component are followed, and what they lead to must be inside. The path that a
 * call returns is the one found so. `list` and `write` also follow a link that is the last component; `move` and `remove` act on the link
 * itself. The calls throw `FileRefused`, the errors of the runtime, and the reason of the signal.
 */
export interface AgentFiles {
  list(handle: string, path: string, signal: AbortSignal): Promise<FileList>;
  /**
   * Opens a file, or a folder as a tar, of any path that the agent sees, except those in which the system shows its processes and devices.
   * A file of more than `maxBytes` is refused at once.
   */
  read(handle: string, path: string, options: FileReadOptions): Promise<FileRead>;
  /** Writes the whole file, on disk and owned by the agent's user, or nothing. If the content breaks off, its error is thrown. */
  write(
    handle: string,
    path: string,
    content: Readable,
    options: FileWriteOptions,
  ): Promise<{ path: string; size: number; created: boolean }>;
  /** Creates the folder, and with `parents` those above it. An existing folder is no error. */
  makeDirectory(
    handle: string,
    path: string,
    options: { parents: boolean; signal: AbortSignal },
  ): Promise<{ path: string; created: boolean }>;
  /** Renames within the volume, and creates the folders above the goal. It replaces nothing, unless `onTaken` allows that a file replaces a file. */
  move(
    handle: string,
    from: string,
    to: string,
    signal: AbortSignal,
    onTaken?: FileWriteOptions['onTaken'],
  ): Promise<{ from: string; to: string }>;
  /** Removes a file, a link or a whole folder. The volume's root is refused. */
  remove(handle: string, path: string, signal: AbortSignal): Promise<{ path: string }>;
  /**
   * Returns what the agent keeps in its volume and in those that its image declares, as it is counted in the container itself, which is fast;
   * null if that takes too long. The agent can falsify it, and what its user may not read is left out: `ContainerRuntime.volumeSizes` counts
   * from outside.
   */
  measure(handle: string, bounds: MeasureBounds): Promise<VolumeSize | null>;
}

export interface FileReadOptions {
  /**
   * Returns the part to read of a file of that size (bytes) and time (Unix seconds), or null for all of it. It is called once, before any
   * byte is read, and not for a folder. What it throws is thrown by the call.
   */
  range?: (file: { size: number; mtime: number }) => FileRange | null;
  maxBytes: number | null;
  signal: AbortSignal;
}
