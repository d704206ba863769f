import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';

import { RuntimeUnavailable } from '../../runtime.errors.ts';
import { call } from '../engine/engine.ts';
import { exitCodeOf } from '../engine/execs.ts';
import { frames, type Frame } from '../engine/frames.ts';
import { BUSYBOX } from './builder-start.ts';

/** The most checks of a command whose output has ended, 10 ms apart. */
const END_CHECKS_MAX = 500;
const OUTPUT_BYTES_MAX = 8 * 1024 * 1024;
const SAID_BYTES_MAX = 4 * 1024;

/** The container and the user as which commands of one builder run. */
export interface InsideBuilder {
  container: Dockerode.Container;
  /** The user id, on the host, as which they run. It is never 0. */
  user: number;
}

/** A command's exit code, its output, which is small, and the beginning of its errors. */
export interface Ended {
  exitCode: number;
  output: Buffer;
  said: string;
}

/** Returns the command that runs the script with these parameters. In the script `b tar` is busybox's tar. */
export const shellCommand = (script: string, ...parameters: string[]): string[] => [
  BUSYBOX,
  'sh',
  '-c',
  `b() { ${BUSYBOX} "$@"; }\n${script}`,
  'sh',
  ...parameters,
];

/** Runs a command in the builder, yields its output as it arrives, and returns its exit code. */
export async function* execInBuilder(
  { container, user }: InsideBuilder,
  argv: string[],
  { stdin, environment = {} }: { stdin?: Readable; environment?: Readonly<Record<string, string>> } = {},
): AsyncGenerator<Frame, number, undefined> {
  const withStdin = stdin !== undefined;
  const Env = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const exec = await call(container.id, (abortSignal) =>
    container.exec({
      Cmd: argv,
      Env,
      User: `${user}:${user}`,
      AttachStdin: withStdin,
      AttachStdout: true,
      AttachStderr: true,
      abortSignal,
    }),
  );
  const stream = await call(container.id, (abortSignal) => exec.start({ hijack: withStdin, stdin: withStdin, abortSignal }));
  const broken = stdin === undefined ? () => null : feed(stdin, stream);
  try {
    yield* frames(stream);
  } catch (error) {
    throw broken() ?? error;
  } finally {
    stream.destroy();
  }
  const failure = broken();
  if (failure !== null) throw failure;
  return exitCodeOf(exec, container.id, END_CHECKS_MAX);
}

/** Runs a command to its end. Throws `RuntimeUnavailable` if it prints more than 8 MiB. */
export async function runInBuilder(inside: InsideBuilder, argv: string[], stdin?: Readable): Promise<Ended> {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const sizes = { stdout: 0, stderr: 0 };
  const output = execInBuilder(inside, argv, { stdin });
  for (let next = await output.next(); ; next = await output.next()) {
    if (next.done === true)
      return {
        exitCode: next.value,
        output: Buffer.concat(parts.stdout),
        said: Buffer.concat(parts.stderr).toString('utf8', 0, SAID_BYTES_MAX).trim(),
      };
    const { stream, payload } = next.value;
    sizes[stream] += payload.length;
    if (sizes.stdout > OUTPUT_BYTES_MAX) throw new RuntimeUnavailable(new Error('a command in a builder printed too much'));
    if (stream === 'stdout' || sizes.stderr < SAID_BYTES_MAX + payload.length) parts[stream].push(payload);
  }
}

/** Sends the input. Returns a function that returns the error that ended it. */
function feed(stdin: Readable, stream: NodeJS.ReadWriteStream & { destroy?: () => void }): () => Error | null {
  let failure: Error | null = null;
  stream.on('error', () => undefined);
  stream.on('close', () => stdin.destroy());
  stdin.on('error', (error) => {
    failure = error;
    stream.destroy?.();
  });
  stdin.pipe(stream);
  return () => failure;
}
