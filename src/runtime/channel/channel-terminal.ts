import { TERMINAL_TYPE, type Terminal, type TerminalRequest } from '../runtime.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { ChannelDuplex, END_MS_MAX } from './channel-duplex.ts';
import type { Channel } from './channel.ts';

/** The output of a terminal that may be in transit or buffered here, in bytes. */
const WINDOW_BYTES = 64 * 1024;

/**
 * Opens a terminal through the supervisor (see `ContainerRuntime.terminal`). `helper` is the path of the busybox, whose shell is used in
 * images without one.
 */
export function terminalOver(channel: Channel, { cols, rows, signal }: TerminalRequest, helper: string): Terminal {
  const call = ['terminal', String(cols), String(rows), '', helper, '1', `TERM=${TERMINAL_TYPE}`];
  const stream = channel.open(call, WINDOW_BYTES);
  const screen = new ChannelDuplex(stream);
  const kill = () => stream.resetWithin(END_MS_MAX);
  signal.addEventListener('abort', kill, { once: true });
  if (signal.aborted) kill();
  const ended = stream
    .ended()
    .then(({ result: [word, code] }) => (word === 'exit' ? Number(code) : null))
    .catch(() => null)
    .finally(() => signal.removeEventListener('abort', kill));
  const resize = async (width: number, height: number) => {
    if (!channel.isOpen) throw new RuntimeRefused('The terminal has ended.');
    stream.control('resize', String(width), String(height));
  };
  return { stream: screen, ended, resize };
}
