import { Scripted } from '../../../test/support/scripted-supervisor.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { ChannelCommands } from './channel-commands.ts';
import { encodeFields, encodeFrame, FrameType } from './frames.ts';

const never = new AbortController().signal;

function end(...result: string[]): Buffer {
  return encodeFrame(1, FrameType.end, Buffer.concat([Buffer.from([8, 0, 0, 0]), Buffer.alloc(8), encodeFields(result)]));
}

function output(bytes: Buffer): Buffer {
  const frame = encodeFrame(1, FrameType.data, bytes);
  frame[5] = 1;
  return frame;
}

/** The commands of an agent whose supervisor answers the first call with these frames. */
async function answered(...frames: Buffer[]): Promise<ChannelCommands> {
  const { transport, channel } = await Scripted.open();
  transport.input.once('data', () => setImmediate(() => transport.says(...frames)));
  return new ChannelCommands(async () => ({ channel, root: '/data', others: [] }), '');
}

describe('the commands of an agent that impersonates its supervisor', () => {
  it.each([
    ['no status', ['ok', 'a', 'flying', '', '0', '0']],
    ['no numbers', ['ok', 'a', 'exited', 'x', '0', '0']],
    ['half of a state', ['ok', 'a', 'exited']],
    ['a word that is none', ['maybe']],
    ['that there is no keeper', ['refused', 'keeper', '']],
    ['that somebody killed it', ['refused', 'killed', '']],
  ])('are unavailable if it reports %s', async (_, result) => {
    await expect((await answered(end(...result))).states('h', never)).rejects.toThrow(RuntimeUnavailable);
  });

  it('are unavailable if the offset of their output decreases, and are not reported as complete', async () => {
    const piece = (offset: number) => Buffer.concat([Buffer.from([offset, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]), Buffer.from('x')]);
    const commands = await answered(encodeFrame(1, FrameType.head, null), output(piece(3)), output(piece(3)), end('ok', ''));
    const pieces = await commands.output('h', 'a', { offset: 0, limit: null, follow: false }, never);
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { offset } of pieces ?? []) seen.push(offset);
    })();
    await expect(reading).rejects.toThrow(RuntimeUnavailable);
    // Pieces that came together are refused together.
    expect([[], [3]]).toContainEqual(seen);
  });

  it('are refused with a sentence if the agent has too many', async () => {
    const request = { commandId: 'a', argv: ['true'], cwd: null, environment: {} };
    const full = await answered(end('refused', 'commands', ''));
    await expect(full.start('h', request, never)).rejects.toThrow(RuntimeRefused);
  });
});
