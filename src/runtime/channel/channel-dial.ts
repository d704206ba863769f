import type { Duplex } from 'node:stream';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { raceAbort } from '../../kernel/async/race-abort.ts';
import { connectionRefused } from '../dial-target.ts';
import { DIAL_MS } from '../dials.ts';
import type { DialTarget } from '../runtime.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { ChannelDuplex, END_MS_MAX } from './channel-duplex.ts';
import { runtimeError } from './channel-errors.ts';
import type { Channel } from './channel.ts';
import type { ChannelStream } from './channel-stream.ts';

/** The bytes that may be in transit from a container or buffered here: a picture of a whole screen often arrives at once. */
const WINDOW_BYTES = 1024 * 1024;

/** Connects to a socket or a port in the container through the supervisor (see `ContainerRuntime.dial`). */
export async function dialOver(channel: Channel, to: DialTarget, signal: AbortSignal): Promise<Duplex> {
  const stream = channel.open('port' in to ? ['dial', 'tcp', String(to.port)] : ['dial', 'unix', to.unix], WINDOW_BYTES);
  const late = timeoutSignal(DIAL_MS);
  try {
    const head = await raceAbort(stream.head(), AbortSignal.any([signal, late]));
    if (head === null) throw await refusalOf(stream, to);
    return new ChannelDuplex(stream);
  } catch (error) {
    stream.resetWithin(END_MS_MAX);
    signal.throwIfAborted();
    throw late.aborted ? new RuntimeUnavailable(late.reason, 'the container does not respond') : runtimeError(error);
  }
}

async function refusalOf(stream: ChannelStream, to: DialTarget): Promise<Error> {
  const { result } = await stream.ended();
  const [word, reason] = result;
  if (word === 'refused' && reason === 'unreachable') return connectionRefused(to);
  if (word === 'refused' && reason === 'busy') return new RuntimeRefused('The container has no room for one more connection.');
  return new RuntimeUnavailable(new Error(`unexpected response of the supervisor: ${String(word)} ${String(reason)}`));
}
