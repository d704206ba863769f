/**
 * Commands that keep running in containers, held by the keepers beside their supervisors.
 *
 * Owns: the calls in progress. Does not own the commands or their output, which the keeper in the container holds.
 *
 * K1  Each call ends when its caller's signal aborts, even if the supervisor does not react.
 * K2  Every field of a response is checked, since the supervisor's process may have been replaced.
 */
import { raceAbort } from '../../kernel/async/race-abort.ts';
import type { AgentCommands, CommandOutput, CommandOutputRequest, CommandState, StartCommandRequest } from '../agent-commands.ts';
import type { ContainerHandle } from '../container.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { validateName, runtimeError } from './channel-errors.ts';
import { channelSignals } from './channel-signals.ts';
import type { ChannelStream, StreamEnd } from './channel-stream.ts';
import { volumePath, type FilesChannel } from './channel-files.ts';
import { CommandPieces } from './command-pieces.ts';

/** The bytes of output of a command that may be in transit or buffered here. */
const WINDOW_BYTES = 256 * 1024;
const FIELDS_OF_STATE = 5;

const refusals: Readonly<Record<string, string>> = {
  commands: 'As many commands run in this agent as may: 16. Wait for the end of one, or remove it.',
  busy: 'The container has no room for one more process.',
};

/** Starts and reads commands in containers. `helper` is the path of the busybox in the container. See K1, K2. */
export class ChannelCommands implements AgentCommands {
  constructor(
    private readonly connect: (handle: ContainerHandle, signal: AbortSignal) => Promise<FilesChannel>,
    private readonly helper: string,
  ) {}

  async start(handle: ContainerHandle, request: StartCommandRequest, signal: AbortSignal): Promise<void> {
    const { commandId, argv, cwd, environment } = request;
    validateName(commandId);
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    const call = (root: string) => ['keep-start', '0', commandId, volumePath(root, cwd), this.helper, String(variables.length)];
    await this.call(handle, signal, (root) => [...call(root), ...variables, ...argv]);
  }

  async states(handle: ContainerHandle, signal: AbortSignal): Promise<ReadonlyMap<string, CommandState>> {
    const fields = (await this.call(handle, signal, () => ['keep-states'])) ?? [];
    const states = new Map<string, CommandState>();
    for (let at = 0; at < fields.length; at += FIELDS_OF_STATE)
      states.set(fields[at] ?? '', stateOf(fields.slice(at + 1, at + FIELDS_OF_STATE)));
    return states;
  }

  async ended(handle: ContainerHandle, commandId: string, signal: AbortSignal): Promise<CommandState | null> {
    const fields = await this.call(handle, signal, () => ['keep-ended', commandId]);
    return fields === null ? null : stateOf(fields);
  }

  async output(
    handle: ContainerHandle,
    commandId: string,
    { offset, limit, follow }: CommandOutputRequest,
    signal: AbortSignal,
  ): Promise<AsyncIterable<CommandOutput> | null> {
    for (const number of [offset, limit ?? 0])
      if (!Number.isSafeInteger(number) || number < 0) throw new RangeError('an offset or a limit is not a number of bytes');
    const stream = await this.open(
      handle,
      () => ['keep-output', commandId, String(offset), String(limit ?? ''), follow ? '1' : '0'],
      signal,
    );
    stream.endInput();
    const giveUp = () => stream.reset();
    signal.addEventListener('abort', giveUp, { once: true });
    const forget = () => signal.removeEventListener('abort', giveUp);
    try {
      if ((await raceAbort(stream.head(), signal)) !== null) return piecesOf(stream, offset, signal, forget);
      forget();
      if (resultOf(await stream.ended()) !== null) throw unexpected('an output without a beginning');
      return null;
    } catch (error) {
      forget();
      stream.reset();
      throw signal.aborted ? signal.reason : runtimeError(error);
    }
  }

  async write(handle: ContainerHandle, commandId: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<boolean> {
    const fields = await this.call(handle, signal, () => ['keep-write', commandId, close ? '1' : '0'], bytes);
    return fields?.[0] === '1';
  }

  async signal(handle: ContainerHandle, commandId: string, name: NodeJS.Signals, signal: AbortSignal): Promise<boolean> {
    const number = channelSignals[name];
    if (number === undefined) throw new RuntimeRefused(`There is no signal ${name} in an agent's container.`);
    const fields = await this.call(handle, signal, () => ['keep-signal', commandId, String(number)]);
    return fields?.[0] === '1';
  }

  async remove(handle: ContainerHandle, commandId: string, signal: AbortSignal): Promise<void> {
    await this.call(handle, signal, () => ['keep-remove', commandId]);
  }

  /** Makes a call. Returns the fields of its result; null if the command is unknown. */
  private async call(
    handle: ContainerHandle,
    signal: AbortSignal,
    call: (root: string) => string[],
    input: Buffer = Buffer.alloc(0),
  ): Promise<string[] | null> {
    const stream = await this.open(handle, call, signal);
    const giveUp = () => stream.abandon();
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      await stream.write(input);
      stream.endInput();
      const end = await stream.ended();
      signal.throwIfAborted();
      return resultOf(end);
    } catch (error) {
      throw signal.aborted ? signal.reason : runtimeError(error);
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  private async open(handle: ContainerHandle, call: (root: string) => string[], signal: AbortSignal): Promise<ChannelStream> {
    const { channel, root } = await this.connect(handle, signal);
    await channel.free(signal);
    signal.throwIfAborted();
    try {
      return channel.open(call(root), WINDOW_BYTES);
    } catch (error) {
      throw runtimeError(error);
    }
  }
}

async function* piecesOf(stream: ChannelStream, offset: number, signal: AbortSignal, forget: () => void): AsyncGenerator<CommandOutput> {
  const pieces = new CommandPieces(offset);
  try {
    for await (const { bytes } of stream.output()) {
      signal.throwIfAborted();
      yield* pieces.push(bytes);
    }
    resultOf(await stream.ended());
  } catch (error) {
    throw signal.aborted ? signal.reason : runtimeError(error);
  } finally {
    forget();
    stream.reset();
  }
  signal.throwIfAborted();
}

/** Returns the fields of a result without its first word; null if the command is unknown. */
function resultOf({ result: [word, ...fields] }: StreamEnd): string[] | null {
  if (word === 'ok') return fields;
  const [detail = ''] = fields;
  if (detail === 'unknown') return null;
  const sentence = refusals[detail];
  if (sentence !== undefined) throw new RuntimeRefused(sentence);
  throw unexpected(`${String(word)} ${detail}`.slice(0, 100));
}

function stateOf([status, code = '', printed, dropped]: string[]): CommandState {
  if (status !== 'running' && status !== 'exited' && status !== 'killed') throw unexpected('a state that is none');
  const numbers = [Number(code), Number(printed), Number(dropped)] as const;
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) throw unexpected('a state without numbers');
  const [exitCode, outputBytes, droppedBytes] = numbers;
  return { status, exitCode: status === 'running' ? null : exitCode, outputBytes, droppedBytes };
}

function unexpected(said: string): RuntimeUnavailable {
  return new RuntimeUnavailable(new Error(`unexpected response of the supervisor: ${said}`));
}
