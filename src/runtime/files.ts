import type { Readable } from 'node:stream';

/** The largest number of entries of a folder that one list returns. */
export const FILE_ENTRIES_MAX = 10_000;
/** The time after which a transfer is aborted, however slow the other side is, in ms. */
export const FILE_TRANSFER_MS_MAX = 600_000;
/** The timeout of all other calls, in ms. The removal of a large folder takes the longest. */
export const FILE_CALL_MS_MAX = 120_000;

export type FileKind = 'file' | 'directory' | 'link' | 'other';

export interface FileEntry {
  name: string;
  /** The kind of the entry itself: links are not followed. */
  kind: FileKind;
  /** The size in bytes. */
  size: number;
  /** The modification time of the content, in Unix seconds. */
  mtime: number;
}

export interface FileList {
  /** The mount point of the volume. */
  root: string;
  path: string;
  /** The entries, sorted by name. Invalid UTF-8 bytes in names are replaced by U+FFFD. */
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
  /** The modification time of the content, in Unix seconds. */
  mtime: number;
  /**
   * The bytes of the file or of the range, exactly as many as announced, or a plain tar of the folder. The stream fails if the file shrinks
   * during the read. Destroying the stream ends the work in the container.
   */
  content: Readable;
}

/** The space that an agent's volumes use. */
export interface VolumeSize {
  /** The size in bytes; `Infinity` if no program can measure it. */
  bytes: number;
  /** The number of files, folders and links; `Infinity` above the limit of the count. */
  files: number;
}

export interface MeasureBounds {
  withinMs: number;
  filesMax: number;
}

/** Reserves space for so many more bytes of a write. Returns whether there was enough. */
export type ReserveBytes = (bytes: number) => boolean | Promise<boolean>;

export interface FileWriteOptions {
  /** The largest size of the file in bytes; a larger file is `too_large`. */
  maxBytes: number;
  /** Reserves space for the bytes before they are written; null stands for no limit. Without space, the write is `volume_full`. */
  reserve: ReserveBytes | null;
  /** The treatment of an existing file. A folder is never replaced. */
  onTaken: 'replace' | 'refuse';
  /** Creates missing parent folders. */
  parents: boolean;
  /**
   * Makes the file executable for everybody: a new file gets the mode 755. Otherwise a new file gets 644, and an existing file keeps its
   * mode.
   */
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

/** The call was refused, and nothing was changed. */
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
 * The files of a running container, which is identified by its handle. Paths are used as the caller gave them; relative ones start at the
 * volume's root. Everything except `read` is confined to the volume: all symbolic links above the last component are followed, and their
 * targets must be inside. A call returns the path after these links. `list` and `write` also follow a link that is the last component;
 * `move` and `remove` act on the link itself. The calls throw `FileRefused`, the errors of the runtime, and the reason of the signal.
 */
export interface AgentFiles {
  list(handle: string, path: string, signal: AbortSignal): Promise<FileList>;
  /**
   * Opens a file, or a folder as a tar, at any path that the agent sees, except in the system's folders of processes and devices. A file of
   * more than `maxBytes` is refused at once.
   */
  read(handle: string, path: string, options: FileReadOptions): Promise<FileRead>;
  /** Writes the whole file, on disk and owned by the agent's user, or nothing. If the content fails, its error is thrown. */
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
  /**
   * Renames within the volume, and creates missing parent folders. It replaces nothing, unless `onTaken` allows one file to replace
   * another.
   */
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
   * Returns the space that the agent uses in its volume and in those that its image declares, counted in the container itself, which is
   * fast; null if that takes too long. The agent can falsify the result, and files that its user can't read are not counted:
   * `ContainerRuntime.volumeSizes` counts from outside.
   */
  measure(handle: string, bounds: MeasureBounds): Promise<VolumeSize | null>;
}

export interface FileReadOptions {
  /**
   * Returns the part to read of a file of that size (bytes) and modification time (Unix seconds), or null for the whole file. Called once,
   * before any byte is read, and not for a folder. The call throws whatever it throws.
   */
  range?: (file: { size: number; mtime: number }) => FileRange | null;
  maxBytes: number | null;
  signal: AbortSignal;
}
