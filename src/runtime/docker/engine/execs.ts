import type Dockerode from 'dockerode';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { call, until } from './engine.ts';
import { frames } from './frames.ts';

/** Returns the exit code of a command whose output has ended. Polls every 10 ms, at most `looksMax` times. Throws `RuntimeUnavailable`. */
export async function exitCodeOf(exec: Dockerode.Exec, handle: string, looksMax = 200): Promise<number> {
  const code = await until(
    async () => {
      const { Running, ExitCode } = await call(handle, (abortSignal) => exec.inspect({ abortSignal }));
      return Running ? null : ExitCode;
    },
    looksMax,
    10,
  );
  if (code === null) throw new RuntimeUnavailable(new Error('the command’s output ended, but the command did not'));
  return code;
}

/**
 * Runs a program as root in a running container of our own, and writes the input to it. Returns the output, up to `outputBytesMax` bytes.
 * Throws `RuntimeRefused` if the program fails, and `RuntimeUnavailable` if it has not ended within the timeout of a call.
 */
export async function runInOwn(container: Dockerode.Container, argv: string[], input: string, outputBytesMax: number): Promise<Buffer> {
  const options = { Cmd: argv, User: '0:0', AttachStdin: true, AttachStdout: true };
  const exec = await call(null, (abortSignal) => container.exec({ ...options, abortSignal }));
  const stream = await call(null, (abortSignal) => exec.start({ hijack: true, stdin: true, abortSignal }));
  try {
    stream.on('error', () => undefined).end(input);
    const output = await call(null, async () => {
      const parts: Buffer[] = [];
      let size = 0;
      for await (const { payload } of frames(stream)) {
        size += payload.length;
        if (size > outputBytesMax) throw new RuntimeRefused(`${argv[0]} printed more than ${outputBytesMax} bytes.`);
        parts.push(payload);
      }
      return Buffer.concat(parts);
    });
    const code = await exitCodeOf(exec, container.id);
    if (code !== 0) throw new RuntimeRefused(`${argv[0]} ended with ${code}.`);
    return output;
  } finally {
    stream.destroy();
  }
}
