import { Readable } from 'node:stream';
import { ExecOutput } from '../exec-output.ts';
import type { ExecRequest, ExecResult } from '../runtime.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { validateName } from './channel-errors.ts';
import { volumePath, type FilesChannel } from './channel-files.ts';
import type { ChannelStream } from './channel-stream.ts';
import { sessionScript } from './session-script.ts';

/** The output of a command that may be in transit or buffered here, in bytes. */
const OUTPUT_WINDOW_BYTES = 256 * 1024;
/** The time that the supervisor has to end a command after the deadline, before the call returns without it, in ms. */
const GRACE_MS = 5_000;
const KILLED_EXIT_CODE = 137;
const TIMED_OUT_EXIT_CODE = 124;
const EXIT_CODES = /^(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$/;
/** The bytes that each piece of output counts in addition to its own, because it is parsed and passed on separately. */
const FRAME_COST_BYTES = 256;

/** The time after which the unused shell of a session ends, in ms. */
const SESSION_IDLE_MS = 15 * 60_000;

const refusals: Readonly<Record<string, string>> = {
  busy: 'The container has no room for one more process.',
  sessions: 'This agent has as many sessions as it may: 8. One ends after 15 minutes without use, or when its shell is told to exit.',
  input: 'A command of a session takes 8 MiB of input at most.',
};

/** Runs a command through the supervisor (see `ContainerRuntime.exec`). `helper` is the path of the busybox in the container. */
export async function execOver({ channel, root }: FilesChannel, request: ExecRequest, helper: string): Promise<ExecResult> {
  const { signal, timeoutMs } = request;
  const stream = channel.open(callOf(request, root, helper), OUTPUT_WINDOW_BYTES);
  feed(request.stdin, stream);
  const timer = new Deadline(timeoutMs + GRACE_MS, () => stream.abandon());
  const kill = () => stream.reset();
  signal?.addEventListener('abort', kill, { once: true });
  if (signal?.aborted) kill();
  try {
    const output = new ExecOutput(request);
    await pass(stream, output, request, timer);
    const { result, droppedBytes } = await stream.ended();
    signal?.throwIfAborted();
    const { stdout, stderr, truncated } = output.result();
    return { ...outcomeOf(result), stdout, stderr, truncated: truncated || droppedBytes > 0 };
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    timer.clear();
    signal?.removeEventListener('abort', kill);
  }
}

function callOf(request: ExecRequest, root: string, helper: string): string[] {
  const { argv, cwd = null, session, environment = {} } = request;
  const bounds = [String(request.timeoutMs), String(request.outputLimitBytes)];
  if (session !== undefined) {
    validateName(session);
    const script = sessionScript(request, cwd === null ? null : volumePath(root, cwd));
    return ['session', ...bounds, root, helper, session, String(SESSION_IDLE_MS), script];
  }
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  return ['exec', ...bounds, volumePath(root, cwd), helper, String(variables.length), ...variables, ...argv];
}

function feed(stdin: ExecRequest['stdin'], stream: ChannelStream): void {
  const send = async () => {
    if (stdin !== undefined)
      for await (const bytes of Readable.from(Buffer.isBuffer(stdin) ? [stdin] : stdin)) await stream.write(bytes as Buffer);
  };
  // An input that breaks off ends the command's input. So does the end of the command.
  void send()
    .catch(() => undefined)
    .then(() => stream.endInput());
}

/** Passes the output on. While reading is paused, the deadline of the call is paused too. */
async function pass(stream: ChannelStream, output: ExecOutput, { pace }: ExecRequest, timer: Deadline): Promise<void> {
  for await (const part of stream.output()) {
    output.push(part.stream, part.bytes);
    const turn = pace?.(part.bytes.length + part.frames * FRAME_COST_BYTES) ?? null;
    if (turn === null) continue;
    timer.hold();
    await turn;
    timer.release();
  }
}

function outcomeOf([word, detail, late]: string[]): { exitCode: number; timedOut: boolean } {
  if (word === 'exit' && EXIT_CODES.test(detail ?? ''))
    return { exitCode: late === '1' ? TIMED_OUT_EXIT_CODE : Number(detail), timedOut: late === '1' };
  if (detail === 'abandoned') return { exitCode: TIMED_OUT_EXIT_CODE, timedOut: true };
  // A process in the container killed the keeper of the command, and so the command.
  if (detail === 'killed') return { exitCode: KILLED_EXIT_CODE, timedOut: false };
  const sentence = refusals[String(detail)];
  if (sentence !== undefined) throw new RuntimeRefused(sentence);
  throw new RuntimeUnavailable(new Error(`unexpected response of the supervisor: ${String(word)} ${String(detail)}`));
}

/** A timeout that does not advance while it is held. */
class Deadline {
  private timer: NodeJS.Timeout;
  private since = performance.now();

  constructor(
    private leftMs: number,
    private readonly onOver: () => void,
  ) {
    this.timer = setTimeout(onOver, leftMs);
  }

  hold(): void {
    this.clear();
    this.leftMs -= performance.now() - this.since;
  }

  release(): void {
    this.since = performance.now();
    this.timer = setTimeout(this.onOver, Math.max(0, this.leftMs));
  }

  clear(): void {
    clearTimeout(this.timer);
  }
}
