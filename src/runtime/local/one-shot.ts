import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { killGroup } from '../../kernel/kill-group.ts';
import { ExecOutput } from '../exec-output.ts';
import { missingPart } from '../missing-part.mjs';
import type { ExecRequest, ExecResult, OutputStream } from '../runtime.ts';
import { markOf, signalProcess, type ProcessMark } from './processes.ts';

/** The time to wait for the last output after the exit, in ms: a process that left the command's group may keep the output open forever. */
const LAST_OUTPUT_MS = 500;

export interface OneShot {
  argv: string[];
  cwd: string;
  environment: Record<string, string>;
  request: ExecRequest;
  /** Called once with the process, before anything else happens. */
  onStart(mark: ProcessMark): Promise<void>;
}

/** Runs a command in its own process group and kills the group at the deadline, or when the request's signal aborts. */
export async function runOneShot(shot: OneShot): Promise<ExecResult> {
  const { argv, request } = shot;
  request.signal?.throwIfAborted();
  if (!isFolder(shot.cwd)) return failed(request, 126, `${request.cwd ?? shot.cwd}: no such folder\n`);
  const [program = '', ...rest] = argv;
  let child;
  try {
    child = spawn(program === 'node' ? process.execPath : program, rest, {
      cwd: shot.cwd,
      env: shot.environment,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
  } catch (error) {
    // An argument is too long, or contains a NUL.
    return notStarted(shot, error as NodeJS.ErrnoException);
  }
  if (child.pid === undefined) {
    const [error] = (await once(child, 'error')) as [NodeJS.ErrnoException];
    return notStarted(shot, error);
  }
  const mark = markOf(child.pid);
  const output = new ExecOutput(request);
  collect(child.stdout, 'stdout', output);
  collect(child.stderr, 'stderr', output);
  const kill = () => signalProcess(mark, 'SIGKILL', 'group');
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    kill();
  }, request.timeoutMs);
  request.signal?.addEventListener('abort', kill, { once: true });
  const exit = exitCodeOf(child);
  await shot.onStart(mark).catch((error: unknown) => {
    clearTimeout(timer);
    request.signal?.removeEventListener('abort', kill);
    kill();
    throw error;
  });
  void feed(child, request.stdin);
  const exitCode = await exit;
  clearTimeout(timer);
  request.signal?.removeEventListener('abort', kill);
  killGroup(child.pid);
  request.signal?.throwIfAborted();
  return { exitCode: timedOut ? 124 : exitCode, ...output.result(), timedOut };
}

function collect(stream: Readable, name: OutputStream, output: ExecOutput): void {
  stream.on('error', () => undefined);
  stream.on('data', (chunk: Buffer) => output.push(name, chunk));
}

function notStarted({ argv: [program = ''], cwd, environment, request }: OneShot, error: NodeJS.ErrnoException): ExecResult {
  // If the user can't enter one folder of the PATH, a missing command fails with EACCES instead of ENOENT.
  const nowhere = !program.includes('/') && !(environment.PATH ?? '').split(':').some((folder) => existsSync(join(folder, program)));
  const missing = error.code === 'ENOENT' || nowhere;
  const part = missing ? missingPart(program, cwd) : null;
  return failed(request, missing ? 127 : 126, `${program}: ${part ?? (missing ? 'command not found' : `can't be run (${error.code})`)}\n`);
}

function failed(request: ExecRequest, exitCode: number, sentence: string): ExecResult {
  const output = new ExecOutput(request);
  output.push('stderr', Buffer.from(sentence));
  return { exitCode, ...output.result(), timedOut: false };
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function exitCodeOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      const exitCode = code ?? (signal === 'SIGTERM' ? 143 : 137);
      const settle = () => {
        clearTimeout(timer);
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve(exitCode);
      };
      const timer = setTimeout(settle, LAST_OUTPUT_MS);
      child.once('close', settle);
    });
  });
}

async function feed(child: ChildProcess, stdin: ExecRequest['stdin']): Promise<void> {
  const pipe = child.stdin;
  if (pipe === null) return;
  // The command may end before it has read all input.
  pipe.on('error', () => undefined);
  try {
    if (stdin !== undefined)
      for await (const chunk of Buffer.isBuffer(stdin) ? [stdin] : stdin) {
        if (pipe.destroyed) return;
        if (!pipe.write(chunk)) await drained(pipe);
      }
  } finally {
    pipe.end();
  }
}

function drained(pipe: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ['drain', 'close', 'error']) pipe.once(event, () => resolve());
  });
}
