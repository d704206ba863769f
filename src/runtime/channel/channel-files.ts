/**
 * The files of agents in containers, by calls of their supervisors.
 *
 * Owns: the calls that are in progress, one stream each. Does not own the channel (`AgentChannels`), or the paths' containment, which the
 * supervisor enforces in the container.
 *
 * F1  Each call ends: on success, at its timeout, or when its caller's signal aborts, even if the supervisor does not react.
 * F2  What is in transit or buffered for a call is bounded by its window.
 * F3  Every field of a response is checked, since the supervisor's process may have been replaced.
 * F4  A write whose content breaks off waits until the supervisor has removed what it wrote.
 */
import { randomUUID } from 'node:crypto';
import { posix } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { filePath, pathText, UNFINISHED_MS_MAX, UNFINISHED_PREFIX } from '../file-paths.ts';
import {
  FILE_CALL_MS_MAX,
  FILE_ENTRIES_MAX,
  FILE_TRANSFER_MS_MAX,
  FileRefused,
  type AgentFiles,
  type FileList,
  type FileRead,
  type FileReadOptions,
  type FileRefusal,
  type FileWriteOptions,
  type MeasureBounds,
  type VolumeSize,
} from '../files.ts';
import { limitedContent, within } from '../limited-content.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { parseEntries } from './channel-entries.ts';
import type { Channel } from './channel.ts';
import type { ChannelStream } from './channel-stream.ts';

/** F2: The bytes of a response or a transfer that may be in transit or buffered here. */
const WINDOW_BYTES = 1024 * 1024;
/** The size of the parts in which a file is passed on, in bytes, approximately. */
const PART_BYTES = 256 * 1024;
/** The bytes of a list of `FILE_ENTRIES_MAX` entries with names of 255 bytes. */
const LIST_BYTES_MAX = 4 * 1024 * 1024;
/** F4: The time that a call has to remove what it has written when its input ends early, in ms. */
const CLEANUP_MS = 5_000;
/** The latest time that a Date can represent, in seconds. */
const TIME_SECONDS_MAX = 8_640_000_000_000;

const refusals: ReadonlySet<string> = new Set<FileRefusal>([
  'not_found',
  'exists',
  'outside_volume',
  'volume_root',
  'not_a_directory',
  'is_a_directory',
  'not_a_file',
  'not_permitted',
  'too_large',
  'volume_full',
  'invalid_path',
]);
const sweepAge = String(UNFINISHED_MS_MAX / 1_000);

/** The channel to a container. */
export interface FilesChannel {
  channel: Channel;
  /** The mount point of the agent's volume. */
  root: string;
  /** The mount points of the volumes that its image declares, without those inside another one. */
  others: readonly string[];
}

/** Returns the path, which starts at the volume unless it is absolute; null stands for the volume. */
export function volumePath(root: string, path: string | null): string {
  return posix.resolve(root, path ?? '.');
}

/** Reads and changes files in containers. See F1 to F4. */
export class ChannelFiles implements AgentFiles {
  constructor(private readonly connect: (handle: string, signal: AbortSignal) => Promise<FilesChannel>) {}

  list(handle: string, path: string, signal: AbortSignal): Promise<FileList> {
    const call = ['list', wanted(path), String(FILE_ENTRIES_MAX + 1), UNFINISHED_PREFIX, sweepAge];
    return this.run(handle, call, within(FILE_CALL_MS_MAX, signal), async (stream) => {
      const [root = '', real = ''] = await headOf(stream);
      const entries = parseEntries(await contentOf(stream, LIST_BYTES_MAX));
      await resultOf(stream);
      return { root, path: real, ...entries };
    });
  }

  async read(handle: string, path: string, { range, maxBytes, signal }: FileReadOptions): Promise<FileRead> {
    const bounded = within(FILE_TRANSFER_MS_MAX, signal);
    const stream = await this.open(handle, ['read', wanted(path), String(maxBytes ?? '')], bounded);
    // F1: A supervisor that was stopped does not even confirm the end of the call.
    const giveUp = () => stream.abandon();
    bounded.addEventListener('abort', giveUp, { once: true });
    try {
      const [kind, real = '', size, seconds] = await headOf(stream);
      const facts = { path: real, mtime: numberOf(seconds, TIME_SECONDS_MAX) };
      const file = { size: numberOf(size, Number.MAX_SAFE_INTEGER), mtime: facts.mtime };
      const { start, end } = kind === 'directory' ? { start: 0, end: -1 } : (range?.(file) ?? { start: 0, end: file.size - 1 });
      await stream.write(rangeOf(start, end - start + 1));
      stream.endInput();
      const parts = kind === 'directory' ? wholeTar(stream) : exactly(stream, end - start + 1);
      const content = addAbortSignal(bounded, Readable.from(parts, { objectMode: false }));
      content.once('close', () => stream.abandon());
      return kind === 'directory' ? { ...facts, kind, size: null, content } : { ...facts, kind: 'file', size: file.size, content };
    } catch (error) {
      stream.abandon();
      throw bounded.aborted ? bounded.reason : error;
    } finally {
      bounded.removeEventListener('abort', giveUp);
    }
  }

  async write(
    handle: string,
    path: string,
    content: Readable,
    options: FileWriteOptions,
  ): Promise<{ path: string; size: number; created: boolean }> {
    const signal = within(FILE_TRANSFER_MS_MAX, options.signal);
    try {
      if (filePath(path).folder) throw new FileRefused('is_a_directory');
      const flags = [options.parents ? '1' : '0', options.onTaken === 'replace' ? '1' : '0', UNFINISHED_PREFIX + randomUUID()];
      const call = [
        'write',
        wanted(path),
        ...flags,
        String(options.maxBytes),
        UNFINISHED_PREFIX,
        sweepAge,
        options.executable === true ? '1' : '0',
      ];
      // The signal ends the content, so that the supervisor can clean up.
      return await this.run(handle, call, signal, (stream) => written(stream, limitedContent(content, options, signal)), CLEANUP_MS);
    } finally {
      content.destroy();
    }
  }

  makeDirectory(
    handle: string,
    path: string,
    { parents, signal }: { parents: boolean; signal: AbortSignal },
  ): Promise<{ path: string; created: boolean }> {
    const call = ['mkdir', wanted(path), parents ? '1' : '0'];
    return this.run(handle, call, within(FILE_CALL_MS_MAX, signal), async (stream) => {
      const [real = '', created] = await resultOf(stream);
      return { path: real, created: created === '1' };
    });
  }

  move(
    handle: string,
    from: string,
    to: string,
    signal: AbortSignal,
    onTaken: FileWriteOptions['onTaken'] = 'refuse',
  ): Promise<{ from: string; to: string }> {
    const call = ['move', wanted(from), wanted(to), onTaken === 'replace' ? '1' : '0'];
    return this.run(handle, call, within(FILE_CALL_MS_MAX, signal), async (stream) => {
      const [old = '', next = ''] = await resultOf(stream);
      return { from: old, to: next };
    });
  }

  remove(handle: string, path: string, signal: AbortSignal): Promise<{ path: string }> {
    const call = ['remove', wanted(path), `${UNFINISHED_PREFIX}${randomUUID()}-`];
    return this.run(handle, call, within(FILE_CALL_MS_MAX, signal), async (stream) => {
      const [real = ''] = await resultOf(stream);
      return { path: real };
    });
  }

  async measure(handle: string, { withinMs, filesMax }: MeasureBounds): Promise<VolumeSize | null> {
    const signal = timeoutSignal(withinMs);
    try {
      const { channel, root, others } = await this.channelOf(handle, signal);
      const stream = channel.open(['measure', String(filesMax), root, ...others], WINDOW_BYTES);
      const [bytes, files] = await this.bounded(stream, signal, 0, () => resultOf(stream));
      return { bytes: countOf(bytes), files: files === '-1' ? Infinity : countOf(files) };
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }

  /** F1: Makes a call. When the signal aborts, the call is ended, after `graceMs`. */
  private async run<T>(
    handle: string,
    call: readonly string[],
    signal: AbortSignal,
    work: (stream: ChannelStream) => Promise<T>,
    graceMs = 0,
  ): Promise<T> {
    const stream = await this.open(handle, call, signal);
    return this.bounded(stream, signal, graceMs, () => work(stream));
  }

  private async bounded<T>(stream: ChannelStream, signal: AbortSignal, graceMs: number, work: () => Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    // F1: The supervisor of a frozen container does not even confirm the end of the call.
    const giveUp = () => (timer = setTimeout(() => stream.abandon(), graceMs));
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await work();
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      stream.reset();
    }
  }

  private async open(handle: string, [name = '', ...args]: readonly string[], signal: AbortSignal): Promise<ChannelStream> {
    const { channel, root } = await this.channelOf(handle, signal);
    return channel.open([name, root, ...args], WINDOW_BYTES);
  }

  /** Returns the channel once it accepts one more stream. */
  private async channelOf(handle: string, signal: AbortSignal): Promise<FilesChannel> {
    signal.throwIfAborted();
    const opened = await this.connect(handle, signal);
    await opened.channel.free(signal);
    return opened;
  }
}

const wanted = (path: string): string => pathText(filePath(path));

function rangeOf(start: number, count: number): Buffer {
  const range = Buffer.allocUnsafe(16);
  range.writeBigUInt64LE(BigInt(start), 0);
  range.writeBigUInt64LE(BigInt(count), 8);
  return range;
}

/** F3: Returns the number in a response. A time may be before 1970, or too late for a Date. */
function numberOf(text: string | undefined, most: number): number {
  if (text === undefined || !/^-?\d{1,19}$/.test(text))
    throw new RuntimeUnavailable(new Error('the supervisor sent a response without a number'));
  return Math.max(-TIME_SECONDS_MAX, Math.min(most, Number(text)));
}

/** Returns the head of a response, which comes before its content. Throws `FileRefused`. */
async function headOf(stream: ChannelStream): Promise<string[]> {
  const head = await stream.head();
  if (head !== null) return head.map((field) => field.toString());
  await resultOf(stream);
  throw new RuntimeUnavailable(new Error('the supervisor sent no response'));
}

/** Returns the fields of the result of a call that has succeeded. Throws `FileRefused`. */
async function resultOf(stream: ChannelStream): Promise<string[]> {
  const [word, ...fields] = (await stream.ended()).result;
  if (word === 'ok') return fields;
  const [reason = '', detail = ''] = fields;
  if (refusals.has(reason)) throw new FileRefused(reason as FileRefusal, { cause: new Error(detail) });
  if (reason === 'no_volume') throw new RuntimeRefused('The mount point of the agent’s volume is a link in its image.');
  throw new RuntimeUnavailable(new Error(`the call on files failed: ${reason} ${detail}`));
}

/** Returns a count that the supervisor sent. Throws `RuntimeUnavailable` if it is not a number. */
function countOf(text: string | undefined): number {
  const count = /^\d{1,16}$/.test(text ?? '') ? Number(text) : NaN;
  if (!Number.isSafeInteger(count)) throw new RuntimeUnavailable(new Error('the supervisor sent an invalid number'));
  return count;
}

/** Returns the content of a response, at most about `maxBytes` of it. */
async function contentOf(stream: ChannelStream, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const { bytes } of stream.output()) {
    if (size > maxBytes) continue;
    parts.push(bytes);
    size += bytes.length;
  }
  return Buffer.concat(parts).subarray(0, maxBytes);
}

/** Yields the tar. Throws if it is incomplete, because the call was ended before its end. */
async function* wholeTar(stream: ChannelStream): AsyncGenerator<Buffer> {
  for await (const { bytes } of stream.output()) yield bytes;
  await resultOf(stream);
}

/** Yields the bytes of a file in larger parts than they arrive in, since each part costs a write to the caller. */
async function* exactly(stream: ChannelStream, length: number): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let size = 0;
  let left = length;
  for await (const { bytes } of stream.output()) {
    const part = bytes.length > left ? bytes.subarray(0, left) : bytes;
    parts.push(part);
    size += part.length;
    left -= part.length;
    if (size < PART_BYTES && left > 0) continue;
    yield Buffer.concat(parts);
    parts = [];
    size = 0;
  }
  if (left > 0) throw new Error('the file shrank while it was read');
}

/** F4: Sends the content of a file. If it breaks off, waits until the supervisor has removed what it has written. */
async function written(stream: ChannelStream, content: AsyncIterable<Buffer>): Promise<{ path: string; size: number; created: boolean }> {
  await headOf(stream);
  let size = 0;
  try {
    for await (const bytes of content) {
      await stream.write(bytes);
      size += bytes.length;
    }
  } catch (error) {
    stream.reset();
    await stream.ended().catch(() => undefined);
    throw error;
  }
  stream.endInput();
  const [path = '', created] = await resultOf(stream);
  return { path, size, created: created === '1' };
}
