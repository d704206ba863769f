import { Scripted } from '../../../test/support/scripted-supervisor.ts';
import { RuntimeUnavailable } from '../runtime.errors.ts';
import { ChannelFiles } from './channel-files.ts';
import { encodeFields, encodeFrame, FrameType } from './frames.ts';

const bounds = { withinMs: 60_000, filesMax: 1_000 };

/** Files whose supervisor answers the first call so, or not at all. */
async function answering(...result: string[]): Promise<ChannelFiles> {
  const { transport, channel } = await Scripted.open();
  const dropped = Buffer.from([8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  if (result.length > 0)
    transport.input.once('data', () => transport.says(encodeFrame(1, FrameType.end, Buffer.concat([dropped, encodeFields(result)]))));
  return new ChannelFiles(async () => ({ channel, root: '/data', others: [] }));
}

describe('the measurement of a volume in its container', () => {
  it('is the counted size, and infinite for too many files', async () => {
    expect(await (await answering('ok', '4096', '3')).measure('handle', bounds)).toEqual({ bytes: 4_096, files: 3 });
    expect(await (await answering('ok', '4096', '-1')).measure('handle', bounds)).toEqual({ bytes: 4_096, files: Infinity });
  });

  it('is null if the supervisor does not respond in time', async () => {
    expect(await (await answering()).measure('handle', { ...bounds, withinMs: 1 })).toBeNull();
  });

  it.each([
    ['is negative', ['ok', '-5', '3']],
    ['is no number', ['ok', 'x', '3']],
    ['is empty', ['ok', '', '3']],
    ['has too many digits', ['ok', '9'.repeat(17), '3']],
    ['is not there', ['ok']],
    ['is a refusal', ['refused', 'busy', '']],
  ])('is rejected if it %s', async (_, result) => {
    await expect((await answering(...result)).measure('handle', bounds)).rejects.toThrow(RuntimeUnavailable);
  });
});
