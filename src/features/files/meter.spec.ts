import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { Meter } from './meter.ts';

afterEach(() => jest.useRealTimers());

/** Sends the parts through a meter and returns what came out, or throws. */
async function passed(announced: { bytes: number } | { bytesMax: number }, parts: string[]): Promise<string> {
  const meter = new Meter(announced);
  const [, chunks] = await Promise.all([pipeline(Readable.from(parts.map((part) => Buffer.from(part))), meter), meter.toArray()]);
  return Buffer.concat(chunks as Buffer[]).toString();
}

describe('a download that is sent', () => {
  it('has exactly the bytes that were announced, or breaks off', async () => {
    expect(await passed({ bytes: 5 }, ['he', 'llo'])).toBe('hello');
    expect(await passed({ bytes: 0 }, [])).toBe('');
    await expect(passed({ bytes: 6 }, ['hello'])).rejects.toThrow('fewer bytes');
    await expect(passed({ bytes: 4 }, ['he', 'llo'])).rejects.toThrow('more bytes');
  });

  it('of unknown length has at most as many bytes as it may', async () => {
    expect(await passed({ bytesMax: 5 }, ['hi'])).toBe('hi');
    await expect(passed({ bytesMax: 4 }, ['hello'])).rejects.toThrow('more bytes');
  });

  it('fails if its reader reads nothing for 30 s, but not if the agent is slow', async () => {
    jest.useFakeTimers();
    const slowAgent = new Meter({ bytes: 10 });
    const slowReader = new Meter({ bytes: 10 });
    slowReader.on('error', () => undefined);
    slowReader.write('hello');
    await jest.advanceTimersByTimeAsync(29_000);
    expect([slowAgent.destroyed, slowReader.destroyed]).toEqual([false, false]);
    await jest.advanceTimersByTimeAsync(60_000);
    expect([slowAgent.destroyed, slowReader.destroyed]).toEqual([false, true]);
    slowAgent.destroy();
  });
});
