import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { pause } from '../../../async/pause.ts';
import { ExecOutput } from '../../exec-output.ts';
import { RuntimeRefused, RuntimeUnavailable, type ExecRequest, type ExecResult } from '../../runtime.ts';
import { call, portError, until } from '../engine/engine.ts';
import { frames } from '../engine/frames.ts';
import { helperMount, helperProgram, isHelperVolume } from '../engine/names.ts';

/** The time after the deadline that the supervisor in the container has before the call returns without it, ms. */
const GRACE_MS = 5_000;
/** The pause between two tries to kill an aborted command, ms. */
const KILL_AGAIN_MS = 250;
const KILLED_EXIT_CODE = 137;
const TIMED_OUT_EXIT_CODE = 124;

/** Kills every process that has the mark. */
export const sweep = `for round in 1 2 3; do
  found=$("$box" grep -lszxF "MOORING_EXEC=$mark" /proc/[0-9]*/environ); [ -n "$found" ] || break
  for file in $found; do pid=\${file#/proc/}; kill -9 "\${pid%/environ}" 2>/dev/null; done
done`;

/**
 * Runs in the container with the busybox shell. The engine can't end an exec, so this script keeps the deadline, even if the control plane
 * is gone. The command gets a session of its own. A mark in the environment finds every process that it started, even outside the session,
 * so that none outlives the command.
 */
const supervisor = `
limit=$1 mark=$2 box=$3; shift 3
sweep='${sweep}'
case $1 in
*/*) path=$1 ;;
*)
  path= IFS=:; set -f
  for folder in $PATH; do [ -f "\${folder:-.}/$1" ] && [ -x "\${folder:-.}/$1" ] && path=\${folder:-.}/$1 && break; done
  unset IFS; set +f ;;
esac
if ! [ -e "$path" ]; then
  name=\${1##*/}
  case $1 in "$name" | /bin/"$name" | /usr/bin/"$name") ;; *) name= ;; esac
  if [ -z "$name" ] || ! "$box" --list | "$box" grep -qxF -e "$name"; then echo "$1: not found" >&2; exit 127; fi
  shift; set -- "$box" "$name" "$@"
else
  shift; set -- "$path" "$@"
fi
exec 3<&0
( export MOORING_EXEC=$mark; exec "$box" setsid "$@" <&3 3<&- ) &
command=$!
"$box" setsid "$box" sh -c "box=$box mark=$mark"'; sleep "$1"; kill -9 -"$2" 2>/dev/null; '"$sweep" watch "$limit" $command </dev/null >/dev/null 2>&1 3<&- &
watch=$!
exec 3<&- </dev/null
{ wait $command; code=$?; } 2>/dev/null
kill -9 -$watch 2>/dev/null
kill -9 -$command 2>/dev/null
eval "$sweep"
exit $code
`;

/** Runs a command in a running container (see `ContainerRuntime.exec`). */
export async function execInContainer(container: Dockerode.Container, request: ExecRequest): Promise<ExecResult> {
  const handle = container.id;
  const { signal } = request;
  await readyContainer(container);
  signal?.throwIfAborted();
  const started = Date.now();
  const mark = randomUUID();
  const limit = (request.timeoutMs / 1_000).toFixed(3);
  const withStdin = request.stdin !== undefined;
  const exec = await call(handle, (abortSignal) =>
    container.exec({
      Cmd: [helperProgram, 'sh', '-c', supervisor, 'exec', limit, mark, helperProgram, ...request.argv],
      AttachStdin: withStdin,
      AttachStdout: true,
      AttachStderr: true,
      Env: Object.entries(request.environment ?? {}).map(([name, value]) => `${name}=${value}`),
      abortSignal,
    }),
  );
  const stream = await call(handle, (abortSignal) => exec.start({ hijack: withStdin, stdin: withStdin, abortSignal }));
  // Read errors are thrown by `drain` below; a write to a command that has ended is no error.
  stream.on('error', () => undefined);
  if (request.stdin !== undefined) feed(request.stdin, stream);
  const output = new ExecOutput(request);
  const running = drain(stream, output, request.timeoutMs + GRACE_MS, handle);
  const ended = await (signal === undefined ? running : killedOnAbort(running, signal, () => killMarked(container, mark)));
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

/** Returns whether the output ended within the time. */
async function drain(stream: Readable, output: ExecOutput, timeMs: number, handle: string): Promise<boolean> {
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    stream.destroy();
  }, timeMs);
  try {
    for await (const frame of frames(stream)) output.take(frame.stream, frame.payload);
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

async function killMarked(container: Dockerode.Container, mark: string): Promise<void> {
  const script = `mark=$1 box=$2; ${sweep}`;
  const Cmd = [helperProgram, 'sh', '-c', script, 'kill', mark, helperProgram];
  const exec = await call(container.id, (abortSignal) => container.exec({ Cmd, abortSignal }));
  const answer = await call(container.id, (abortSignal) => exec.start({ Detach: true, abortSignal }));
  // The script has started. The answer is empty, but its connection to the engine stays open for as long as nobody reads it.
  answer.destroy();
}

/** Returns the exit code of a command whose output has ended. */
export async function exitCodeOf(exec: Dockerode.Exec, handle: string): Promise<number> {
  const code = await until(
    async () => {
      const { Running, ExitCode } = await call(handle, (abortSignal) => exec.inspect({ abortSignal }));
      return Running ? null : ExitCode;
    },
    200,
    10,
  );
  if (code === null) throw new RuntimeUnavailable(new Error('the command’s output ended, but the command did not'));
  return code;
}
