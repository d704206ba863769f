import { PassThrough } from 'node:stream';
import fc from 'fast-check';

import { Channel, type ChannelTransport } from './channel.ts';
import { ChannelBroken, encodeFields, encodeFrame, FrameType } from './frames.ts';

const WINDOW_BYTES = 1_000;
const greeting = encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '1', '262144', '64']));
const end = encodeFrame(1, FrameType.end, Buffer.concat([Buffer.from([8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), encodeFields(['ok'])]));

/** A supervisor that says what a test wants it to. */
class Scripted implements ChannelTransport {
  readonly input = new PassThrough();
  isClosed = false;
  private say: (bytes: Buffer) => void = () => undefined;

  onBytes(callback: (bytes: Buffer) => void): void {
    this.say = callback;
  }

  onEnd(): void {}

  close(): void {
    this.isClosed = true;
  }

  says(...bytes: Buffer[]): void {
    this.say(Buffer.concat(bytes));
  }
}

async function opened(): Promise<{ transport: Scripted; channel: Channel }> {
  const transport = new Scripted();
  const opening = Channel.open(transport);
  transport.says(greeting);
  return { transport, channel: await opening };
}

const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

/** An output frame. */
function data(stream: number, bytes: Buffer): Buffer {
  const frame = encodeFrame(stream, FrameType.data, bytes);
  frame[5] = 1;
  return frame;
}

describe('a supervisor that does not keep to the protocol', () => {
  it.each([
    ['greets as somebody else', encodeFrame(0, FrameType.hello, encodeFields(['other', '1', '1', '1']))],
    ['speaks another version', encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '2', '1', '1']))],
    ['greets with limits that are no numbers', encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '1', 'x', '1']))],
    ['does not greet', end],
    ['says what is no frame', Buffer.from('OCI runtime exec failed')],
  ])('and %s is not listened to', async (_, said) => {
    const transport = new Scripted();
    const opening = Channel.open(transport);
    transport.says(said);
    await expect(opening).rejects.toThrow(ChannelBroken);
    expect(transport.isClosed).toBe(true);
  });

  it.each([
    ['sends more output than there is credit for', [data(1, Buffer.alloc(WINDOW_BYTES)), data(1, Buffer.alloc(1))]],
    ['sends an output without bytes', [data(1, Buffer.alloc(0))]],
    ['sends an output without a name', [encodeFrame(1, FrameType.data, Buffer.from('x'))]],
    ['answers for a stream that nobody opened', [data(9, Buffer.from('x'))]],
    ['answers for a stream that has ended', [end, data(1, Buffer.from('x'))]],
    ['answers a call again and again', Array.from({ length: 5 }, () => encodeFrame(1, FrameType.head, encodeFields(['x'])))],
    ['gives credit that nobody has used', [encodeFrame(1, FrameType.credit, number(1))]],
    ['gives credit that is no number', [encodeFrame(1, FrameType.credit, Buffer.from('x'))]],
    ['ends a stream without a result', [encodeFrame(1, FrameType.end, Buffer.alloc(0))]],
    ['greets twice', [greeting]],
    ['answers with fields that are none', [encodeFrame(1, FrameType.head, Buffer.from([255, 255, 255, 255]))]],
  ])('and %s loses its channel, with all calls that are under way', async (_, said) => {
    const { transport, channel } = await opened();
    const stream = channel.open(['exec'], WINDOW_BYTES);
    const other = channel.open(['exec'], WINDOW_BYTES);
    const ended = other.ended();
    transport.says(...said);
    await expect(ended).rejects.toThrow(ChannelBroken);
    expect([transport.isClosed, channel.isOpen, channel.size]).toEqual([true, false, 0]);
    expect(() => channel.open(['exec'], WINDOW_BYTES)).toThrow(ChannelBroken);
    await stream.ended().catch((error: unknown) => expect(error).toBeInstanceOf(ChannelBroken));
  });

  it('never makes the service keep more than it gave credit for, whatever it says', async () => {
    const frame = fc.record({
      stream: fc.integer({ min: 0, max: 3 }),
      type: fc.integer({ min: 0, max: 9 }),
      output: fc.integer({ min: 0, max: 3 }),
      payload: fc.uint8Array({ maxLength: 400 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 60 }), async (frames) => {
        const { transport, channel } = await opened();
        const streams = [channel.open(['exec'], WINDOW_BYTES), channel.open(['exec'], WINDOW_BYTES)];
        for (const { stream, type, output, payload } of frames) {
          const bytes = encodeFrame(stream, type, Buffer.from(payload));
          bytes[5] = output;
          transport.says(bytes);
        }
        channel.close();
        for (const stream of streams) {
          let kept = 0;
          try {
            for await (const { bytes } of stream.output()) kept += bytes.length;
          } catch (error) {
            expect(error).toBeInstanceOf(ChannelBroken);
          }
          expect(kept).toBeLessThanOrEqual(WINDOW_BYTES);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a channel', () => {
  it('takes a call more only when the supervisor does', async () => {
    const transport = new Scripted();
    const opening = Channel.open(transport);
    transport.says(encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '1', '1000', '1'])));
    const channel = await opening;
    const never = new AbortController().signal;
    await channel.free(never);
    channel.open(['exec'], WINDOW_BYTES);
    let isFree = false;
    const waiting = channel.free(never).then(() => (isFree = true));
    await Promise.resolve();
    expect(isFree).toBe(false);
    transport.says(end);
    await waiting;
    expect(channel.size).toBe(0);
  });

  it('sends no more input than the supervisor gave credit for', async () => {
    const { transport, channel } = await opened();
    const stream = channel.open(['write'], WINDOW_BYTES);
    let sent = 0;
    transport.input.on('data', (bytes: Buffer) => (sent += bytes.length));
    const writing = stream.write(Buffer.alloc(300_000));
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toBeLessThan(262_144 + 1_000);
    transport.says(encodeFrame(1, FrameType.credit, number(100_000)));
    await writing;
  });
});
