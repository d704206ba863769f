import { once } from 'node:events';

import { Scripted } from '../../../test/support/scripted-supervisor.ts';
import { RuntimeRefused, RuntimeUnavailable } from '../runtime.errors.ts';
import { dialOver } from './channel-dial.ts';
import { encodeFields, encodeFrame, FrameType } from './frames.ts';

const accepted = encodeFrame(1, FrameType.head, null);
const ended = (...result: string[]) =>
  encodeFrame(1, FrameType.end, Buffer.concat([Buffer.from([8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), encodeFields(result)]));
const never = new AbortController().signal;

describe('a connection into a container', () => {
  it.each([
    [['refused', 'unreachable', 'No such file or directory'], RuntimeRefused],
    [['refused', 'busy', ''], RuntimeRefused],
    [['refused', 'some other word', ''], RuntimeUnavailable],
    [['ok'], RuntimeUnavailable],
  ])('fails if the supervisor responds with %j', async (result, error) => {
    const { transport, channel } = await Scripted.open();
    const dialling = dialOver(channel, { unix: '/run/a' }, never);
    transport.says(ended(...result));
    await expect(dialling).rejects.toThrow(error);
    expect(channel.size).toBe(0);
  });

  it('without a response of the supervisor is aborted with its caller’s reason, and leaves the channel usable', async () => {
    const { transport, channel } = await Scripted.open();
    const caller = new AbortController();
    const dialling = dialOver(channel, { unix: '/run/a' }, caller.signal);
    const reason = new Error('the caller has gone');
    caller.abort(reason);
    await expect(dialling).rejects.toBe(reason);
    expect(channel.isOpen).toBe(true);
    transport.says(ended('refused', 'reset', ''));
    expect(channel.size).toBe(0);
  });

  it('whose channel breaks while it is established reports the engine as unavailable', async () => {
    const { transport, channel } = await Scripted.open();
    const dialling = dialOver(channel, { port: 80 }, never);
    transport.says(Buffer.from('OCI runtime exec failed'));
    await expect(dialling).rejects.toThrow(RuntimeUnavailable);
  });

  it('closes without an error when the channel breaks, in whatever state it was', async () => {
    const { transport, channel } = await Scripted.open();
    const dialling = dialOver(channel, { port: 80 }, never);
    transport.says(accepted);
    const connection = await dialling;
    const closed = once(connection.resume(), 'close');
    // More than the supervisor takes at once, so that some of it waits.
    connection.write(Buffer.alloc(1_000_000));
    await new Promise((resolve) => setImmediate(resolve));
    transport.says(Buffer.from('OCI runtime exec failed'));
    await closed;
  });
});
