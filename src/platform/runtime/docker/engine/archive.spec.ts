import { PassThrough } from 'node:stream';

import type Dockerode from 'dockerode';
import { pack } from 'tar-stream';

import { RuntimeUnavailable } from '../../runtime.ts';
import { fileIn } from './archive.ts';
import { CALL_TIMEOUT_MS } from './engine.ts';

const CONTENT = 'content '.repeat(100);

async function tarOfFile(): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name: 'file' }, CONTENT);
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** A container as whose file the engine sends the stream. */
const containerWith = (sent: PassThrough) => ({ id: 'x', getArchive: () => Promise.resolve(sent) }) as unknown as Dockerode.Container;

describe('a file of a container', () => {
  afterEach(() => jest.useRealTimers());

  it('is read whole, unless it is larger than expected', async () => {
    const tar = await tarOfFile();
    expect(String(await fileIn(containerWith(new PassThrough().end(tar)), '/file', CONTENT.length))).toBe(CONTENT);
    const sent = new PassThrough();
    sent.write(tar);
    await expect(fileIn(containerWith(sent), '/file', CONTENT.length - 1)).rejects.toThrow('more than');
    expect(sent.destroyed).toBe(true);
  });

  it('is given up if the engine hangs in the middle of it', async () => {
    const sent = new PassThrough();
    sent.write((await tarOfFile()).subarray(0, 600));
    jest.useFakeTimers();
    const outcome = fileIn(containerWith(sent), '/file', CONTENT.length).catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(CALL_TIMEOUT_MS);
    expect(await outcome).toBeInstanceOf(RuntimeUnavailable);
  });
});
