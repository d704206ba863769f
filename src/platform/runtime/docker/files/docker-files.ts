import { randomUUID } from 'node:crypto';
import { addAbortSignal, Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { filePath, pathText, UNFINISHED_PREFIX } from '../../file-paths.ts';
import {
  FILE_CALL_MS_MAX,
  FILE_TRANSFER_MS_MAX,
  FileRefused,
  type AgentFiles,
  type FileList,
  type FileRead,
  type FileReadOptions,
  type FileWriteOptions,
} from '../../files.ts';
import { limitedContent, within } from '../../limited-content.ts';
import { RuntimeRefused, type ContainerHandle } from '../../runtime.ts';
import { readyContainer } from '../containers/exec.ts';
import { identityOf, volumeName } from '../engine/names.ts';
import { pause } from '../../../async/pause.ts';
import { entriesIn, LIST_BYTES_MAX } from './entries.ts';
import { FileExec } from './file-exec.ts';
import type { FileProgram } from './script.ts';

/** A file is sent to its container in blocks of at least so many bytes. */
const BLOCK_BYTES = 1024 * 1024;
/** A file is handed on in parts of about so many bytes. */
const PART_BYTES = 256 * 1024;
/** Two empty blocks end a tar. */
const TAR_END_BYTES = 1_024;
/** The time that a program has to remove what it has written when its input ends early, ms. */
const CLEANUP_MS = 5_000;

const callSeconds = String(FILE_CALL_MS_MAX / 1_000);
const transferSeconds = String(FILE_TRANSFER_MS_MAX / 1_000);

/** The files of agents in containers. Each call is one program in the agent's own container. */
export class DockerFiles implements AgentFiles {
  constructor(private readonly docker: Dockerode) {}

  list(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<FileList> {
    const args = [callSeconds, wanted(path), String(LIST_BYTES_MAX)];
    return this.run(handle, { program: 'list', args, signal: within(FILE_CALL_MS_MAX, signal) }, async (exec, root) => {
      const [real = ''] = await exec.answer('list', 1);
      return { root, path: real, ...entriesIn(await exec.text(LIST_BYTES_MAX)) };
    });
  }

  async read(handle: ContainerHandle, path: string, { range, maxBytes, signal }: FileReadOptions): Promise<FileRead> {
    const bounded = within(FILE_TRANSFER_MS_MAX, signal);
    const { exec } = await this.open(handle, 'read', [transferSeconds, wanted(path), String(maxBytes ?? '-')], bounded);
    const giveUp = () => exec.close();
    bounded.addEventListener('abort', giveUp, { once: true });
    try {
      const [kind, real = '', size, seconds] = await exec.answer('found', 4);
      const facts = { path: real, mtime: Number(seconds) };
      if (kind === 'directory') {
        await exec.send('\n');
        return {
          ...facts,
          kind,
          size: null,
          content: addAbortSignal(bounded, closing(exec, Readable.from(wholeTar(exec), { objectMode: false }))),
        };
      }
      const file = { size: Number(size), mtime: facts.mtime };
      const { start, end } = range?.(file) ?? { start: 0, end: file.size - 1 };
      await exec.send(`${start} ${end - start + 1}\n`);
      return { ...facts, kind: 'file', size: file.size, content: addAbortSignal(bounded, contentOf(exec, end - start + 1)) };
    } catch (error) {
      exec.close();
      throw bounded.aborted ? bounded.reason : error;
    } finally {
      bounded.removeEventListener('abort', giveUp);
    }
  }

  async write(
    handle: ContainerHandle,
    path: string,
    content: Readable,
    options: FileWriteOptions,
  ): Promise<{ path: string; size: number; created: boolean }> {
    const signal = within(FILE_TRANSFER_MS_MAX, options.signal);
    try {
      if (filePath(path).folder) throw new FileRefused('is_a_directory');
      const args = [wanted(path), options.parents ? 'parents' : '-', options.onTaken, UNFINISHED_PREFIX + randomUUID()];
      // The signal ends the content, so that the program can clean up.
      return await this.run(handle, { program: 'write', args, signal, graceMs: CLEANUP_MS }, (exec) =>
        written(exec, limitedContent(content, options, signal)),
      );
    } finally {
      content.destroy();
    }
  }

  makeDirectory(
    handle: ContainerHandle,
    path: string,
    { parents, signal }: { parents: boolean; signal: AbortSignal },
  ): Promise<{ path: string; created: boolean }> {
    const args = [callSeconds, wanted(path), parents ? 'parents' : '-'];
    return this.run(handle, { program: 'makeDirectory', args, signal: within(FILE_CALL_MS_MAX, signal) }, async (exec) => {
      const [real = '', created] = await exec.answer('made', 2);
      return { path: real, created: created === 'true' };
    });
  }

  move(
    handle: ContainerHandle,
    from: string,
    to: string,
    signal: AbortSignal,
    onTaken: FileWriteOptions['onTaken'] = 'refuse',
  ): Promise<{ from: string; to: string }> {
    const args = [callSeconds, wanted(from), wanted(to), onTaken];
    return this.run(handle, { program: 'move', args, signal: within(FILE_CALL_MS_MAX, signal) }, async (exec) => {
      const [old = '', next = ''] = await exec.answer('moved', 2);
      return { from: old, to: next };
    });
  }

  remove(handle: ContainerHandle, path: string, signal: AbortSignal): Promise<{ path: string }> {
    const args = [callSeconds, wanted(path), `${UNFINISHED_PREFIX}${randomUUID()}-`];
    return this.run(handle, { program: 'remove', args, signal: within(FILE_CALL_MS_MAX, signal) }, async (exec) => {
      const [real = ''] = await exec.answer('removed', 1);
      return { path: real };
    });
  }

  /** Runs the program of a call. When the signal aborts, the program ends, after `graceMs`. */
  private async run<T>(
    handle: ContainerHandle,
    { program, args, signal, graceMs = 0 }: { program: FileProgram; args: string[]; signal: AbortSignal; graceMs?: number },
    work: (exec: FileExec, root: string) => Promise<T>,
  ): Promise<T> {
    const { exec, root } = await this.open(handle, program, args, signal);
    let timer: NodeJS.Timeout | undefined;
    const giveUp = () => (timer = setTimeout(() => exec.close(), graceMs));
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await work(exec, root);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      exec.close();
    }
  }

  private async open(
    handle: ContainerHandle,
    program: FileProgram,
    args: readonly string[],
    signal: AbortSignal,
  ): Promise<{ exec: FileExec; root: string }> {
    signal.throwIfAborted();
    const container = this.docker.getContainer(handle);
    const { Mounts, Config } = await readyContainer(container);
    const volume = volumeName(identityOf(Config.Labels).agentId);
    const root = Mounts.find(({ Name }) => Name === volume)?.Destination;
    if (root === undefined) throw new RuntimeRefused('The container has no volume.');
    signal.throwIfAborted();
    return { exec: await FileExec.start(container, program, root, args), root };
  }
}

const wanted = (path: string): string => pathText(filePath(path));

/** Returns the bytes that the program prints. The stream ends with an error if they are fewer, and the program ends with the stream. */
function contentOf(exec: FileExec, length: number): Readable {
  return closing(exec, Readable.from(exactly(exec, length), { objectMode: false }));
}

/** Returns the content, whose end is that of the program, too. */
function closing(exec: FileExec, content: Readable): Readable {
  return content.once('close', () => exec.close());
}

/** Yields the tar that the program prints. Throws if it has no end, since the program was ended before it. */
async function* wholeTar(exec: FileExec): AsyncGenerator<Buffer> {
  let tail = Buffer.alloc(0);
  let size = 0;
  for await (const part of exec.content()) {
    size += part.length;
    tail = Buffer.concat([tail, part.subarray(-TAR_END_BYTES)]).subarray(-TAR_END_BYTES);
    yield part;
  }
  // A tar without an entry is that of a directory which was moved meanwhile.
  if (size <= TAR_END_BYTES || tail.some((byte) => byte !== 0)) throw new Error('the directory could not be read to its end');
}

/** Yields the bytes in larger parts than the engine sends them, since each part costs a write to the caller. */
async function* exactly(exec: FileExec, length: number): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let size = 0;
  let left = length;
  if (left === 0) return;
  for await (const chunk of exec.content()) {
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    parts.push(part);
    size += part.length;
    left -= part.length;
    if (size < PART_BYTES && left > 0) continue;
    yield Buffer.concat(parts);
    if (left === 0) return;
    parts = [];
    size = 0;
  }
  throw new Error('the file has shrunk while it was read');
}

/** Sends the content to the program that writes it. If it breaks off, waits until the program has removed what it has written. */
async function written(exec: FileExec, content: AsyncIterable<Buffer>): Promise<{ path: string; size: number; created: boolean }> {
  await exec.answer('ready', 0);
  let isOver = false;
  const result = exec.answer('written', 2).finally(() => (isOver = true));
  const ended = result.catch(() => undefined);
  let size = 0;
  try {
    for await (const block of blocks(content)) {
      if (isOver) break;
      await exec.send(`${block.length}\n`, block);
      size += block.length;
    }
  } catch (error) {
    exec.end();
    await Promise.race([ended, pause(CLEANUP_MS)]);
    throw error;
  }
  await exec.send('end\n');
  const [path = '', created] = await result;
  return { path, size, created: created === 'true' };
}

/** Yields the bytes in blocks, of which all but the last have the same length. */
async function* blocks(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of content)
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + BLOCK_BYTES - length);
      parts.push(part);
      at += part.length;
      length += part.length;
      if (length < BLOCK_BYTES) continue;
      yield Buffer.concat(parts);
      parts = [];
      length = 0;
    }
  if (length > 0) yield Buffer.concat(parts);
}
