import { existsSync, writeSync } from 'node:fs';
import { Duplex } from 'node:stream';
import type { ReadStream } from 'node:tty';
import type { IPty } from '@lydell/node-pty';
import { TERMINAL_TYPE, type Terminal, type TerminalRequest } from '../runtime.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { killSession, markOf, type ProcessMark } from './processes.ts';

/** The pause until input is offered again to a program that did not read it, in ms. */
const WRITE_AGAIN_MS = 20;

const shells = ['/bin/bash', '/usr/bin/bash', '/bin/sh'];

/** A pseudo-terminal, with the parts that the library's types leave out. */
interface Pty {
  pty: IPty;
  /** The descriptor of the terminal's own side, which does not block. */
  fd: number;
  /** The stream that reads from the descriptor, and closes it. */
  reader: ReadStream;
}

export interface LocalShell {
  cwd: string;
  environment: Record<string, string>;
  request: TerminalRequest;
  /** Called with the shell once it runs. */
  onStart(mark: ProcessMark): Promise<void>;
  /** Called when the shell has ended, or was not started. */
  onEnd(): Promise<void>;
}

/** Opens a terminal with a shell on this machine, in a session of its own, whose processes all end with the shell. */
export async function openLocalTerminal(shell: LocalShell): Promise<Terminal> {
  const { signal } = shell.request;
  const spawned = await spawnShell(shell).catch(async (error: unknown) => {
    await shell.onEnd();
    throw error;
  });
  const { pty, reader } = spawned;
  const exited = new Promise<number>((resolve) => pty.onExit(({ exitCode, signal: by = 0 }) => resolve(by === 0 ? exitCode : 128 + by)));
  const stream = new PtyStream(spawned);
  const kill = () => killSession(pty.pid);
  const ended = exited.then(async (exitCode) => {
    signal.removeEventListener('abort', kill);
    kill();
    stream.finish();
    await shell.onEnd().catch(() => undefined);
    return exitCode;
  });
  signal.addEventListener('abort', kill, { once: true });
  if (signal.aborted) kill();
  await shell.onStart(markOf(pty.pid)).catch((error: unknown) => {
    kill();
    throw error;
  });
  const resize = async (cols: number, rows: number) => {
    if (!reader.destroyed) pty.resize(cols, rows);
  };
  return { stream, ended, resize };
}

async function spawnShell({ cwd, environment: env, request: { cols, rows, signal } }: LocalShell): Promise<Pty> {
  signal.throwIfAborted();
  try {
    const { default: nodePty } = await import('@lydell/node-pty');
    const program = shells.find((path) => existsSync(path)) ?? 'sh';
    const pty = nodePty.spawn(program, [], { name: TERMINAL_TYPE, cols, rows, cwd, env, encoding: null });
    const reader = Reflect.get(pty, '_socket') as ReadStream;
    // Without a second listener the library throws errors of the terminal. Its end event has all the information that is needed.
    for (const listener of [() => undefined, () => undefined]) reader.on('error', listener);
    return { pty, fd: Reflect.get(pty, 'fd') as number, reader };
  } catch (error) {
    throw new RuntimeRefused('This machine has no pseudo-terminals for agents of the local runtime.', { cause: error });
  }
}

/** The bytes of a pseudo-terminal. */
class PtyStream extends Duplex {
  constructor(private readonly of: Pty) {
    super();
    of.pty.onData((chunk) => {
      if (!this.push(chunk)) of.pty.pause();
    });
  }

  /** Ends the output, and discards input that is no longer read. */
  finish(): void {
    this.push(null);
    this.once('end', () => this.destroy());
  }

  override _read(): void {
    if (!this.of.reader.destroyed) this.of.pty.resume();
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.writeRest(chunk, done);
  }

  /**
   * Writes to the descriptor, since the library blocks the process while the input is not read. The descriptor is checked right before each
   * use, because its number may belong to another file once it is closed.
   */
  private writeRest(bytes: Buffer, done: () => void): void {
    const rest = bytes.subarray(this.written(bytes));
    if (rest.length === 0) done();
    else setTimeout(() => this.writeRest(rest, done), WRITE_AGAIN_MS).unref();
  }

  /** Returns the number of accepted bytes; input for a terminal that has ended counts as accepted. */
  private written(bytes: Buffer): number {
    if (this.of.reader.destroyed) return bytes.length;
    try {
      return writeSync(this.of.fd, bytes);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 0 : bytes.length;
    }
  }
}
