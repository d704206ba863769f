import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../async/timeout-signal.ts';
import { unlessAborted } from '../../../async/unless-aborted.ts';
import { TERMINAL_TYPE, type Terminal, type TerminalRequest } from '../../runtime.ts';
import { call, until } from '../engine/engine.ts';
import { exitCodeOf } from '../engine/execs.ts';
import { helperProgram } from '../engine/names.ts';
import { readyContainer } from './exec.ts';
import { sweep } from './exec-script.ts';

/** The longest wait for the end of what a shell started, ms. A frozen container ends nothing. */
const SWEEP_TIMEOUT_MS = 10_000;
/** The tries to set the first size, and the pause between two, ms. */
const RESIZE_TRIES_MAX = 50;
const RESIZE_AGAIN_MS = 20;

/** Runs in the container with the busybox shell, and becomes the first of these shells that is there. */
const shell = `
for shell in /bin/bash /usr/bin/bash /bin/sh; do [ -x "$shell" ] && exec "$shell"; done
exec "$1" sh
`;

/**
 * Runs in the container beside the shell and kills everything that has its mark as soon as its input ends. The input ends with this
 * process, too, after which the engine would keep the shell for ever. A program that was just about to start is found the second time.
 */
const watcher = `mark=$1 box=$2
"$box" cat >/dev/null
${sweep}
"$box" sleep 0.2
${sweep}
`;

/** Opens a terminal in a running container (see `ContainerRuntime.terminal`). */
export async function openTerminal(container: Dockerode.Container, { cols, rows, signal }: TerminalRequest): Promise<Terminal> {
  await readyContainer(container);
  signal.throwIfAborted();
  const mark = randomUUID();
  const watch = await started(container, { Cmd: [helperProgram, 'sh', '-c', watcher, 'watch', mark, helperProgram] }, false);
  // The watcher prints nothing: what comes there is another program's.
  const swept = once(
    watch.stream.on('data', () => watch.stream.destroy()),
    'close',
  );
  let shellOutput: Duplex | null = null;
  let isEnding = false;
  // Output that nobody reads would keep the connection open.
  const kill = () => {
    shellOutput?.resume();
    if (isEnding) return;
    isEnding = true;
    // A watcher that somebody has ended sweeps nothing any more.
    if (watch.stream.destroyed) void sweepAnew(container, mark).catch(() => undefined);
    watch.stream.end();
    setTimeout(() => [watch.stream, shellOutput].forEach((stream) => stream?.destroy()), SWEEP_TIMEOUT_MS).unref();
  };
  signal.addEventListener('abort', kill, { once: true });
  try {
    const options = {
      Cmd: [helperProgram, 'sh', '-c', shell, 'shell', helperProgram],
      Env: [`TERM=${TERMINAL_TYPE}`, `MOORING_EXEC=${mark}`],
    };
    const { exec, stream } = await started(container, options, true);
    shellOutput = stream;
    if (signal.aborted) kill();
    const ended = once(stream, 'close').then(async () => {
      signal.removeEventListener('abort', kill);
      kill();
      await unlessAborted(swept, timeoutSignal(SWEEP_TIMEOUT_MS)).catch(() => undefined);
      return exitCodeOf(exec, container.id).catch(() => null);
    });
    const resize = async (w: number, h: number) => {
      await call(container.id, (abortSignal) => exec.resize({ w, h, abortSignal }));
    };
    // The engine refuses until it has started the shell.
    await until(
      () =>
        resize(cols, rows).then(
          () => true,
          () => null,
        ),
      RESIZE_TRIES_MAX,
      RESIZE_AGAIN_MS,
    );
    return { stream, ended, resize };
  } catch (error) {
    kill();
    throw error;
  }
}

/** Kills everything that has the mark. */
async function sweepAnew(container: Dockerode.Container, mark: string): Promise<void> {
  const { stream } = await started(container, { Cmd: [helperProgram, 'sh', '-c', watcher, 'watch', mark, helperProgram] }, false);
  stream.on('data', () => stream.destroy()).end();
}

async function started(
  container: Dockerode.Container,
  options: Dockerode.ExecCreateOptions,
  Tty: boolean,
): Promise<{ exec: Dockerode.Exec; stream: Duplex }> {
  const attached = { AttachStdin: true, AttachStdout: true, AttachStderr: true };
  const exec = await call(container.id, (abortSignal) => container.exec({ ...options, ...attached, Tty, abortSignal }));
  const stream = await call(container.id, (abortSignal) => exec.start({ hijack: true, stdin: true, Tty, abortSignal }));
  // A connection that breaks closes the stream, and that is all that has to be known.
  stream.on('error', () => undefined);
  return { exec, stream };
}
