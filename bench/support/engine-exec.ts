import { once } from 'node:events';

import type Dockerode from 'dockerode';

/** The program that is mounted in every agent's container, since its image has few programs of its own. */
export const HELPER = '/.mooring/busybox';

/** Commands by the engine's own API, as its clients run them: make the exec, start it, read its output, ask for its exit code. */
export class EngineExec {
  constructor(readonly container: Dockerode.Container) {}

  /** Runs the command. Returns the number of received bytes. Throws unless the exit code is 0. */
  async run(argv: string[], input: Buffer | null = null): Promise<number> {
    const exec = await this.container.exec({ Cmd: argv, AttachStdin: input !== null, AttachStdout: true, AttachStderr: true });
    const stream = await exec.start({ hijack: input !== null, stdin: input !== null });
    let size = 0;
    stream.on('data', (bytes: Buffer) => (size += bytes.length));
    if (input !== null) stream.end(input);
    await once(stream, 'end');
    const { ExitCode } = await exec.inspect();
    if (ExitCode !== 0) throw new Error(`${argv.join(' ')} ended with ${ExitCode}`);
    return size;
  }
}
