import fc from 'fast-check';

import { keptMemory } from '../../../test/support/kept-memory.ts';
import { greeting, Scripted } from '../../../test/support/scripted-supervisor.ts';
import { Channel } from './channel.ts';
import { ChannelBroken, encodeFields, encodeFrame, FrameParser, FrameType } from './frames.ts';

const WINDOW_BYTES = 1_000;
const end = encodeFrame(1, FrameType.end, Buffer.concat([Buffer.from([8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), encodeFields(['ok'])]));

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

describe('a supervisor that violates the protocol', () => {
  it.each([
    ['greets as somebody else', encodeFrame(0, FrameType.hello, encodeFields(['other', '1', '1', '1']))],
    ['speaks another version', encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '2', '1', '1']))],
    ['greets with limits that are no numbers', encodeFrame(0, FrameType.hello, encodeFields(['mooring-supervisor', '1', 'x', '1']))],
    ['does not greet', end],
    ['says what is no frame', Buffer.from('OCI runtime exec failed')],
  ])('and %s is rejected', async (_, said) => {
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
    ['gives credit of nothing, without an end', [encodeFrame(1, FrameType.credit, number(0))]],
    ['gives credit that is no number', [encodeFrame(1, FrameType.credit, Buffer.from('x'))]],
    ['ends a stream without a result', [encodeFrame(1, FrameType.end, Buffer.alloc(0))]],
    ['greets twice', [greeting]],
    ['answers with fields that are none', [encodeFrame(1, FrameType.head, Buffer.from([255, 255, 255, 255]))]],
  ])('and %s loses its channel, with all calls in flight', async (_, said) => {
    const { transport, channel } = await Scripted.open();
    const stream = channel.open(['exec'], WINDOW_BYTES);
    const other = channel.open(['exec'], WINDOW_BYTES);
    const ended = other.ended();
    transport.says(...said);
    await expect(ended).rejects.toThrow(ChannelBroken);
    expect([transport.isClosed, channel.isOpen, channel.size]).toEqual([true, false, 0]);
    expect(() => channel.open(['exec'], WINDOW_BYTES)).toThrow(ChannelBroken);
    await stream.ended().catch((error: unknown) => expect(error).toBeInstanceOf(ChannelBroken));
  });

  it('never makes the service buffer more than it gave credit for, whatever it sends', async () => {
    const frame = fc.record({
      stream: fc.integer({ min: 0, max: 3 }),
      type: fc.integer({ min: 0, max: 9 }),
      output: fc.integer({ min: 0, max: 3 }),
      payload: fc.uint8Array({ maxLength: 400 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 60 }), async (frames) => {
        const { transport, channel } = await Scripted.open();
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

describe('a supervisor that sends small frames', () => {
  it('has its output buffered in about as much memory as it has bytes, without loss', async () => {
    const { transport, channel } = await Scripted.open();
    const window = 400_000;
    const stream = channel.open(['exec'], window);
    const before = keptMemory();
    for (let n = 0; n < window; n += 1) {
      const frame = data(1, Buffer.of(n % 251));
      frame[5] = 1 + (n % 2);
      transport.says(frame);
    }
    expect(keptMemory() - before).toBeLessThan(40 * window);
    transport.says(end);
    const found: Record<string, number[]> = { stdout: [], stderr: [] };
    let frames = 0;
    for await (const output of stream.output()) {
      found[output.stream]?.push(...output.bytes);
      frames += output.frames;
    }
    expect(frames).toBe(window);
    const all = Array.from({ length: window }, (_, n) => n);
    expect(found.stdout).toEqual(all.filter((n) => n % 2 === 0).map((n) => n % 251));
    expect(found.stderr).toEqual(all.filter((n) => n % 2 === 1).map((n) => n % 251));
  });

  it('leaves nothing in memory of what arrived beside its output', async () => {
    const { transport, channel } = await Scripted.open();
    const stream = channel.open(['exec'], 10_000);
    const other = channel.open(['exec'], 200_000);
    for (const size of [1, 5_000]) {
      transport.says(data(1, Buffer.alloc(size)), data(2, Buffer.alloc(60_000)));
      const { value } = await stream.output().next();
      expect(value?.bytes).toHaveLength(size);
      expect(value?.bytes.buffer.byteLength).toBeLessThan(16_384);
    }
    other.abandon();
  });

  it('has a frame that arrives byte by byte buffered in few pieces', () => {
    const parser = new FrameParser();
    const frame = data(1, Buffer.alloc(60_000));
    const before = keptMemory();
    for (let at = 0; at < frame.length - 1; at += 1) expect([...parser.push(frame.subarray(at, at + 1))]).toEqual([]);
    expect(parser.keptParts).toBeLessThanOrEqual(64);
    expect(keptMemory() - before).toBeLessThan(4 * 1024 * 1024);
    expect([...parser.push(frame.subarray(-1))]).toHaveLength(1);
  });

  it('is paused after so many frames that they cost the service more than its share of time', async () => {
    const { transport, channel } = await Scripted.open();
    const window = 1_000_000;
    channel.open(['exec'], window);
    const crumbs = Buffer.concat(Array.from({ length: 10_000 }, () => data(1, Buffer.of(1))));
    transport.says(crumbs);
    expect(transport.heldMs).toBe(0);
    transport.says(crumbs, crumbs);
    expect(transport.heldMs).toBeGreaterThan(500);
    const { transport: other, channel: bulk } = await Scripted.open();
    bulk.open(['read'], 100_000_000);
    for (let n = 0; n < 1_000; n += 1) other.says(data(1, Buffer.alloc(65_536)));
    expect(other.heldMs).toBe(0);
  });

  it('and reads nothing loses its channel before much waits for it', async () => {
    const { transport, channel } = await Scripted.open();
    const call = ['exec', Buffer.alloc(4_000_000)];
    for (let n = 0; n < 20 && channel.isOpen; n += 1) channel.open(call, WINDOW_BYTES);
    expect(channel.isOpen).toBe(false);
    expect(transport.input.writableLength + transport.input.readableLength).toBeLessThan(44_000_000);
  });

  it('and does not end abandoned calls counts as stuck, unless it was frozen meanwhile', async () => {
    jest.useFakeTimers({ now: 1_000 });
    try {
      const { channel } = await Scripted.open();
      channel.open(['exec'], WINDOW_BYTES).abandon();
      await jest.advanceTimersByTimeAsync(20_000);
      expect(channel.isStuck).toBe(false);
      await jest.advanceTimersByTimeAsync(10_000);
      expect(channel.isStuck).toBe(true);
      channel.noteThaw();
      expect(channel.isStuck).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });
});

describe('a channel', () => {
  it('accepts another call only when the supervisor does', async () => {
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
    const { transport, channel } = await Scripted.open();
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
