import { Duplex } from 'node:stream';
import { RuntimeRefused, TERMINAL_TYPE, type Terminal, type TerminalRequest } from '../runtime.ts';
import type { Channel } from './channel.ts';
import type { ChannelStream } from './channel-stream.ts';
import type { StreamOutput } from './waiting-output.ts';

/** The output of a terminal that may be under way or wait here, bytes. */
const WINDOW_BYTES = 64 * 1024;
/** The longest wait for the end of what a shell started, ms. A frozen container ends nothing. */
const END_MS_MAX = 10_000;

/** Opens a terminal by the supervisor (see `ContainerRuntime.terminal`). `helper` is the program with a shell for images without one. */
export function terminalOver(channel: Channel, { cols, rows, signal }: TerminalRequest, helper: string): Terminal {
  const call = ['terminal', String(cols), String(rows), '', helper, '1', `TERM=${TERMINAL_TYPE}`];
  const stream = channel.open(call, WINDOW_BYTES);
  const screen = new TerminalStream(stream);
  let timer: NodeJS.Timeout | undefined;
  const kill = () => {
    stream.reset();
    timer ??= setTimeout(() => stream.abandon(), END_MS_MAX);
    timer.unref();
  };
  signal.addEventListener('abort', kill, { once: true });
  screen.once('close', kill);
  if (signal.aborted) kill();
  const ended = stream
    .ended()
    .then(({ result: [word, code] }) => (word === 'exit' ? Number(code) : null))
    .catch(() => null)
    .finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', kill);
    });
  const resize = async (width: number, height: number) => {
    if (!channel.isOpen) throw new RuntimeRefused('The terminal has ended.');
    stream.control('resize', String(width), String(height));
  };
  return { stream: screen, ended, resize };
}

/** The output and the input of the shell. It is asked for more output only as fast as its reader takes it. */
class TerminalStream extends Duplex {
  private readonly outputs: AsyncGenerator<StreamOutput>;

  constructor(private readonly source: ChannelStream) {
    super();
    this.outputs = source.output();
  }

  override _read(): void {
    this.outputs.next().then(
      ({ value, done }) => this.push(done ? null : value.bytes),
      () => this.destroy(),
    );
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.source.write(bytes).then(
      () => callback(),
      (error: Error) => callback(error),
    );
  }

  override _final(callback: () => void): void {
    this.source.endInput();
    callback();
  }
}
