import type { Duplex } from 'node:stream';
import type Dockerode from 'dockerode';
import { FileRefused, type FileRefusal } from '../../files.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.ts';
import { call, portError } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { helperProgram } from '../engine/names.ts';
import { fileScript, type FileProgram } from './script.ts';

/** Three fields with paths, and their numbers. */
const ANSWER_BYTES_MAX = 16 * 1024;
const ERRORS_BYTES_MAX = 8 * 1024;
/** A program for files that says more than this of errors is not the only one who writes there, bytes. */
const ERRORS_READ_BYTES_MAX = 1024 * 1024;

const reasons: readonly [RegExp, FileRefusal][] = [
  [/No space left on device|Disk quota exceeded|No quota/i, 'volume_full'],
  [/File exists|Directory not empty/i, 'exists'],
  [/Is a directory/i, 'is_a_directory'],
  [/Not a directory/i, 'not_a_directory'],
  [/Permission denied|Operation not permitted|Read-only file system/i, 'not_permitted'],
  [/Invalid argument|File name too long|Cross-device|Too many levels/i, 'invalid_path'],
  [/No such file/i, 'not_found'],
];

/** One program for files that runs in a container. Closing it ends the program. */
export class FileExec {
  private readonly output: AsyncGenerator<Buffer>;
  private rest = Buffer.alloc(0);
  private errors = '';
  private errorBytes = 0;

  private constructor(
    private readonly handle: string,
    private readonly stream: Duplex,
  ) {
    // Read errors are thrown by `output`; a write to a program that has ended is no error.
    stream.on('error', () => undefined);
    this.output = this.printed();
  }

  /** Starts the program with nothing of the agent's environment. The container has to be ready for it. */
  static async start(container: Dockerode.Container, program: FileProgram, root: string, args: readonly string[]): Promise<FileExec> {
    const exec = await call(container.id, (abortSignal) =>
      container.exec({
        Cmd: [helperProgram, 'env', '-i', helperProgram, 'sh', '-c', fileScript(program), 'files', helperProgram, root, ...args],
        WorkingDir: '/',
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        abortSignal,
      }),
    );
    const stream = await call(container.id, (abortSignal) => exec.start({ hijack: true, stdin: true, abortSignal }));
    return new FileExec(container.id, stream);
  }

  /** Returns the next answer: its first word, and `count` fields. Throws `FileRefused` if the program refused. */
  async answer(word: string, count: number): Promise<string[]> {
    const first = await this.field();
    if (first === word) {
      const fields: string[] = [];
      while (fields.length < count) fields.push((await this.field()) ?? this.failed());
      return fields;
    }
    if (first !== 'refused') return this.failed();
    return this.refused((await this.field()) ?? 'failed');
  }

  /** Yields what the program prints after its answers. */
  async *content(): AsyncGenerator<Buffer> {
    if (this.rest.length > 0) yield this.rest;
    yield* this.output;
  }

  /** Returns what the program prints after its answers, at most about `maxBytes` of it. */
  async text(maxBytes: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of this.content()) {
      parts.push(part);
      size += part.length;
      if (size > maxBytes) break;
    }
    return Buffer.concat(parts).subarray(0, maxBytes);
  }

  /** Sends bytes to the program, no faster than it reads. Bytes for a program that has ended are lost. */
  async send(...parts: (string | Buffer)[]): Promise<void> {
    let isTaken = true;
    for (const part of parts) isTaken = !this.stream.destroyed && this.stream.writable && this.stream.write(part);
    if (isTaken || this.stream.destroyed || !this.stream.writable) return;
    await new Promise<void>((resolve) => {
      const events = ['drain', 'close', 'end', 'error'];
      const done = () => {
        for (const event of events) this.stream.off(event, done);
        resolve();
      };
      for (const event of events) this.stream.on(event, done);
    });
  }

  /** Ends the program's standard input. */
  end(): void {
    this.stream.end();
  }

  close(): void {
    this.stream.destroy();
  }

  private async field(): Promise<string | null> {
    for (;;) {
      const end = this.rest.indexOf(0);
      if (end >= 0) {
        const field = this.rest.toString('utf8', 0, end);
        this.rest = this.rest.subarray(end + 1);
        return field;
      }
      if (this.rest.length > ANSWER_BYTES_MAX) return null;
      const { value, done } = await this.output.next();
      if (done) return null;
      this.rest = Buffer.concat([this.rest, value]);
    }
  }

  private async *printed(): AsyncGenerator<Buffer> {
    try {
      for await (const { stream, payload } of frames(this.stream)) {
        if (stream === 'stdout') yield payload;
        else this.addErrors(payload);
      }
    } catch (error) {
      throw portError(error, this.handle);
    }
  }

  private addErrors(payload: Buffer): void {
    this.errorBytes += payload.length;
    if (this.errorBytes > ERRORS_READ_BYTES_MAX) throw new RuntimeRefused('The program for files was disturbed.');
    this.errors = (this.errors + payload.toString()).slice(-ERRORS_BYTES_MAX);
  }

  private async refused(reason: string): Promise<never> {
    // The messages of a program may come after its answer.
    if (reason === 'failed') for await (const _ of this.output);
    if (reason === 'failed') return this.failed();
    if (reason === 'no_volume') throw new RuntimeRefused('The mount point of the agent’s volume is a link in its image.');
    throw new FileRefused(reason as FileRefusal);
  }

  /** The program gave no answer: its messages or the engine's tell why. */
  private failed(): never {
    const [, reason] = reasons.find(([pattern]) => pattern.test(this.errors)) ?? [];
    if (reason !== undefined) throw new FileRefused(reason, { cause: new Error(this.errors) });
    const said = this.rest.toString('utf8', 0, 1_000).trim();
    if (said.startsWith('OCI runtime exec failed')) throw new RuntimeRefused(said);
    throw new RuntimeUnavailable(new Error(`the program for files ended without an answer: ${this.errors}`));
  }
}
