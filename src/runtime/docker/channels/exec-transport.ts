import type { Duplex, Writable } from 'node:stream';
import type Dockerode from 'dockerode';
import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import type { ChannelTransport } from '../../channel/channel.ts';
import { call, portError } from '../engine/engine.ts';
import { EngineFrames } from '../engine/frames.ts';
import { supervisorProgram } from '../engine/names.ts';

const ERRORS_BYTES_MAX = 1_000;
/** A supervisor prints one line to its standard error. */
const STDERR_BYTES_MAX = 64 * 1024;
const REFUSAL = 'OCI runtime exec failed';

/** The connection to a supervisor through an exec of the engine. */
export class ExecTransport implements ChannelTransport {
  private readonly parser = new EngineFrames();
  private callback: ((bytes: Buffer) => void) | null = null;
  private hasGreeted = false;
  private errors = '';
  private errorBytes = 0;

  private constructor(
    private readonly handle: string,
    private readonly stream: Duplex,
  ) {}

  /** Attaches to the supervisor of a running container, as its own user. */
  static async open(container: Dockerode.Container): Promise<ExecTransport> {
    const options = { Cmd: [supervisorProgram, 'attach'], WorkingDir: '/', AttachStdin: true, AttachStdout: true, AttachStderr: true };
    const exec = await call(container.id, (abortSignal) => container.exec({ ...options, abortSignal }));
    return new ExecTransport(
      container.id,
      await call(container.id, (abortSignal) => exec.start({ hijack: true, stdin: true, abortSignal })),
    );
  }

  get input(): Writable {
    return this.stream;
  }

  onBytes(callback: (bytes: Buffer) => void): void {
    this.callback = callback;
  }

  onEnd(callback: (error: Error | null) => void): void {
    let failure: Error | null = null;
    this.stream.on('data', (bytes: Buffer) => {
      try {
        this.receive(bytes);
      } catch (error) {
        failure ??= error as Error;
        this.stream.destroy();
      }
    });
    this.stream.on('error', (error: Error) => (failure ??= portError(error, this.handle)));
    this.stream.on('end', () => this.stream.destroy());
    this.stream.on('close', () => callback(failure ?? (this.errors === '' ? null : new Error(this.errors))));
  }

  pauseReading(ms: number): void {
    this.stream.pause();
    setTimeout(() => this.stream.resume(), ms).unref();
  }

  close(): void {
    this.stream.destroy();
  }

  private receive(bytes: Buffer): void {
    for (const { stream, payload } of this.parser.push(bytes)) {
      if (stream === 'stderr') {
        this.errorBytes += payload.length;
        if (this.errorBytes > STDERR_BYTES_MAX) throw new RuntimeUnavailable(new Error('the supervisor printed too many errors'));
        this.errors = (this.errors + payload.toString()).slice(-ERRORS_BYTES_MAX);
        continue;
      }
      // The engine reports on the output of a program that the program could not be started.
      if (!this.hasGreeted && payload.toString('utf8', 0, REFUSAL.length) === REFUSAL)
        throw new RuntimeRefused(payload.toString('utf8', 0, ERRORS_BYTES_MAX).trim());
      this.hasGreeted = true;
      this.callback?.(payload);
    }
  }
}
