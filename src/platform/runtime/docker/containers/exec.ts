import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { pause } from '../../../async/pause.ts';
import { ExecOutput } from '../../exec-output.ts';
import { RuntimeRefused, type ExecRequest, type ExecResult } from '../../runtime.ts';
import { call, portError } from '../engine/engine.ts';
import { exitCodeOf } from '../engine/execs.ts';
import { frames } from '../engine/frames.ts';
import { helperMount, helperProgram, isHelperVolume } from '../engine/names.ts';
import { launch, stop, supervisor, SUPERVISOR_VARIABLE } from './exec-script.ts';

/** The time after the deadline that the supervisor in the container has before the call returns without it, ms. */
const GRACE_MS = 5_000;
/** The pause between two tries to kill an aborted command, ms. */
const KILL_AGAIN_MS = 250;
const KILLED_EXIT_CODE = 137;
const TIMED_OUT_EXIT_CODE = 124;
/** Output beyond twice the bound of a command, and this, was written by another program into the pipes of the one that looks after it, bytes. */
const FOREIGN_BYTES_MIN = 64 * 1024;
/** The bytes that each piece of output costs beside its own, as it is taken apart and handed on by itself. */
const FRAME_COST_BYTES = 256;

/** Runs a command in a running container (see `ContainerRuntime.exec`). */
export async function execInContainer(container: Dockerode.Container, request: ExecRequest): Promise<ExecResult> {
  const handle = container.id;
  const { signal } = request;
  await readyContainer(container);
  signal?.throwIfAborted();
  const started = Date.now();
  const mark = randomUUID();
  const limits = [String(Math.ceil(request.timeoutMs / 1_000)), String(request.outputLimitBytes + 1)];
  const withStdin = request.stdin !== undefined;
  const exec = await call(handle, (abortSignal) =>
    container.exec({
      Cmd: [helperProgram, 'sh', '-c', launch, 'exec', supervisor, ...limits, mark, helperProgram, ...request.argv],
      AttachStdin: withStdin,
      AttachStdout: true,
      AttachStderr: true,
      Env: Object.entries({ ...request.environment, [SUPERVISOR_VARIABLE]: mark }).map(([name, value]) => `${name}=${value}`),
      abortSignal,
    }),
  );
  const stream = await call(handle, (abortSignal) => exec.start({ hijack: withStdin, stdin: withStdin, abortSignal }));
  // Read errors are thrown by `drain` below; a write to a command that has ended is no error.
  stream.on('error', () => undefined);
  if (request.stdin !== undefined) feed(request.stdin, stream);
  const output = new ExecOutput(request);
  const running = drain(stream, output, request, handle);
  const ended = await (signal === undefined ? running : killedOnAbort(running, signal, () => killCommand(container, mark)));
  signal?.throwIfAborted();
  const exitCode = ended ? await exitCodeOf(exec, handle) : TIMED_OUT_EXIT_CODE;
  const timedOut = !ended || (exitCode === KILLED_EXIT_CODE && Date.now() - started >= request.timeoutMs);
  const { stdout, stderr, truncated } = output.taken();
  if (exitCode === 126 && stdout.toString('utf8', 0, 40).startsWith('OCI runtime exec failed'))
    throw new RuntimeRefused(stdout.toString('utf8').trim());
  return { exitCode: timedOut ? TIMED_OUT_EXIT_CODE : exitCode, stdout, stderr, timedOut, truncated };
}

/** Returns the container. Throws `RuntimeRefused` unless it runs and has the helper program. */
export async function readyContainer(container: Dockerode.Container): Promise<Dockerode.ContainerInspectInfo> {
  const found = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  const { State, Mounts } = found;
  if (State.Paused) throw new RuntimeRefused('The container is frozen, so nothing can be run in it.');
  if (!State.Running) throw new RuntimeRefused('The container does not run, so nothing can be run in it.');
  if (!Mounts.some(({ Destination, Name }) => Destination === helperMount && isHelperVolume(Name)))
    throw new RuntimeRefused(
      'The container has no helper program. Install the package busybox-static or name an image in MOORING_HELPER_IMAGE, then restart the agent.',
    );
  return found;
}

function feed(stdin: Buffer | AsyncIterable<Buffer>, stream: NodeJS.ReadWriteStream): void {
  const source = Readable.from(Buffer.isBuffer(stdin) ? [stdin] : stdin);
  source.on('error', () => stream.end());
  stream.on('close', () => source.destroy());
  source.pipe(stream);
}

/**
 * Returns whether the output ended within the time. The time for which the reading is held up does not count. It is given up as late as soon as
 * more came than the supervisor in the container lets through.
 */
async function drain(stream: Readable, output: ExecOutput, request: ExecRequest, handle: string): Promise<boolean> {
  const { timeoutMs, pace } = request;
  const bytesMax = 2 * (request.outputLimitBytes + 1) + FOREIGN_BYTES_MIN;
  let bytes = 0;
  let late = false;
  let heldMs = 0;
  let heldSince: number | null = null;
  let forgivenMs = 0;
  const held = () => heldMs + (heldSince === null ? 0 : performance.now() - heldSince);
  const onTime = () => {
    const moreMs = held() - forgivenMs;
    forgivenMs += moreMs;
    late = moreMs === 0;
    if (late) stream.destroy();
    else timer = setTimeout(onTime, moreMs);
  };
  let timer = setTimeout(onTime, timeoutMs + GRACE_MS);
  try {
    for await (const frame of frames(stream)) {
      bytes += frame.payload.length;
      if (bytes > bytesMax) return false;
      output.take(frame.stream, frame.payload);
      const turn = pace?.(frame.payload.length + FRAME_COST_BYTES) ?? null;
      if (turn === null) continue;
      heldSince = performance.now();
      await turn;
      heldMs = held();
      heldSince = null;
    }
    return !late;
  } catch (error) {
    if (late) return false;
    throw portError(error, handle);
  } finally {
    clearTimeout(timer);
    stream.destroy();
  }
}

/** Kills the command again and again from the signal's abort to its end: it may not have begun when it is first looked for. */
async function killedOnAbort<T>(running: Promise<T>, signal: AbortSignal, kill: () => Promise<void>): Promise<T> {
  const over = new AbortController();
  const onAbort = async () => {
    while (!over.signal.aborted) {
      await kill().catch(() => undefined);
      await pause(KILL_AGAIN_MS, over.signal);
    }
  };
  const listener = () => void onAbort();
  signal.addEventListener('abort', listener, { once: true });
  if (signal.aborted) listener();
  try {
    return await running;
  } finally {
    over.abort();
    signal.removeEventListener('abort', listener);
  }
}

async function killCommand(container: Dockerode.Container, mark: string): Promise<void> {
  const Cmd = [helperProgram, 'sh', '-c', stop, 'stop', mark, helperProgram];
  const exec = await call(container.id, (abortSignal) => container.exec({ Cmd, abortSignal }));
  const answer = await call(container.id, (abortSignal) => exec.start({ Detach: true, abortSignal }));
  // The script has started. The answer is empty, but its connection to the engine stays open for as long as nobody reads it.
  answer.destroy();
}
