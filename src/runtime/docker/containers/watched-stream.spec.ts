import { PassThrough } from 'node:stream';

import { WatchedStream, type Suspicion } from './watched-stream.ts';

const never: Suspicion = { floodBytes: Infinity, longMs: Infinity, someBytes: Infinity };

/** Returns a stream with these bytes that goes on, and what reads it. */
function following(bytes: number, suspicion: Partial<Suspicion>, silentMs = 1): { output: PassThrough; stream: WatchedStream } {
  const output = new PassThrough();
  output.write(Buffer.alloc(bytes));
  return { output, stream: new WatchedStream(output, silentMs, { ...never, ...suspicion }) };
}

async function lengthOf(stream: WatchedStream, onChunk: () => void = () => undefined): Promise<number> {
  let length = 0;
  for await (const chunk of stream) {
    length += chunk.length;
    onChunk();
  }
  return length;
}

describe('the output of a container that is followed', () => {
  it('counts as stalled when nothing comes for a while after much of it', async () => {
    const { stream } = following(100, { floodBytes: 100 });
    expect(await lengthOf(stream)).toBe(100);
    expect(stream.isStalled).toBe(true);
  });

  it('counts as stalled when nothing comes after some of it, once it was followed for long', async () => {
    const { stream } = following(50, { floodBytes: 100, someBytes: 50, longMs: 5 });
    expect(await lengthOf(stream)).toBe(50);
    expect(stream.isStalled).toBe(true);
  });

  it('does not count as stalled after little of it, and ends when the response does', async () => {
    const { output, stream } = following(49, { floodBytes: 100, someBytes: 50, longMs: 0 });
    // The first chunk is read long before the end comes.
    const read = lengthOf(stream, () => setTimeout(() => output.end(), 50));
    expect(await read).toBe(49);
    expect(stream.isStalled).toBe(false);
  });

  it('fails as the response does', async () => {
    const { output, stream } = following(100, { floodBytes: 100 }, 60_000);
    const read = lengthOf(stream, () => output.destroy(new Error('broken off')));
    await expect(read).rejects.toThrow('broken off');
  });
});
