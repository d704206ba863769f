import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { ExecRequest, ExecResult } from '../runtime.ts';
import { markOf, signalProcess, type ProcessMark } from './processes.ts';

/** The time to wait for the last output after the exit, ms: a process that left the command's group may hold the output open forever. */
const LAST_OUTPUT_MS = 500;

export interface OneShot {
  argv: string[];
  cwd: string;
  environment: Record<string, string>;
  request: ExecRequest;
  /** Called once with the process, before anything else happens. */
  onStart(mark: ProcessMark): Promise<void>;
}

/** Keeps stdout and stderr, up to one limit for both, and discards the rest. */
class BoundedOutput {
  readonly kept: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
  truncated = false;
  constructor(private room: number) {}

  take(stream: Readable, name: 'stdout' | 'stderr'): void {
    stream.on('error', () => undefined);
    stream.on('data', (chunk: Buffer) => {
      if (chunk.length > this.room) this.truncated = true;
      const part = chunk.subarray(0, this.room);
      this.room -= part.length;
      if (part.length > 0) this.kept[name].push(part);
    });
  }
}

/** Runs a command in a process group of its own and kills the group at the deadline. */
export async function runOneShot(shot: OneShot): Promise<ExecResult> {
  const { argv, request } = shot;
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
  const output = new BoundedOutput(request.outputLimitBytes);
  output.take(child.stdout, 'stdout');
  output.take(child.stderr, 'stderr');
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    signalProcess(mark, 'SIGKILL', 'group');
  }, request.timeoutMs);
  const exit = exitCodeOf(child);
  await shot.onStart(mark).catch((error: unknown) => {
    clearTimeout(timer);
    signalProcess(mark, 'SIGKILL', 'group');
    throw error;
  });
  void feed(child, request.stdin);
  const exitCode = await exit;
  clearTimeout(timer);
  killRest(child.pid);
  return {
    exitCode: timedOut ? 124 : exitCode,
    stdout: Buffer.concat(output.kept.stdout),
    stderr: Buffer.concat(output.kept.stderr),
    timedOut,
    truncated: output.truncated,
  };
}

function notStarted({ argv: [program = ''], environment }: OneShot, error: NodeJS.ErrnoException): ExecResult {
  // If the user may not enter one folder of the PATH, a missing command yields EACCES instead of ENOENT.
  const nowhere = !program.includes('/') && !(environment.PATH ?? '').split(':').some((folder) => existsSync(join(folder, program)));
  const missing = error.code === 'ENOENT' || nowhere;
  return {
    exitCode: missing ? 127 : 126,
    stdout: Buffer.alloc(0),
    stderr: Buffer.from(`${program}: ${missing ? 'command not found' : `can't be run (${error.code})`}\n`),
    timedOut: false,
    truncated: false,
  };
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
  // The command may end before it has read everything.
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

/** Kills what the command left in its group. The group's id stays taken as long as one of its processes lives. */
function killRest(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing of the group is left.
  }
}
