import { PassThrough } from 'node:stream';

import type Dockerode from 'dockerode';
import { pack } from 'tar-stream';

import { RuntimeRefused, RuntimeUnavailable } from '../../runtime.errors.ts';
import { fileIn, filesInto, statsIn } from './archive.ts';
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
const containerWith = (sent: PassThrough, Status = 'created') =>
  ({ id: 'x', inspect: async () => ({ State: { Status } }), getArchive: async () => sent }) as unknown as Dockerode.Container;

/** A container into which the engine unpacks nothing, for this reason. */
function refusingContainer(message: string, Status = 'created') {
  const putArchive = jest.fn(async () => {
    throw Object.assign(new Error(message), { statusCode: 500, json: { message } });
  });
  return { putArchive, container: { id: 'x', inspect: async () => ({ State: { Status } }), putArchive } as unknown as Dockerode.Container };
}

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

  it('is aborted if the engine hangs in the middle of it', async () => {
    const sent = new PassThrough();
    sent.write((await tarOfFile()).subarray(0, 600));
    jest.useFakeTimers();
    const outcome = fileIn(containerWith(sent), '/file', CONTENT.length).catch((error: unknown) => error);
    await jest.advanceTimersByTimeAsync(CALL_TIMEOUT_MS);
    expect(await outcome).toBeInstanceOf(RuntimeUnavailable);
  });

  it.each(['running', 'paused', 'exited', 'restarting', 'dead'])('is neither read nor written if it is %s', async (status) => {
    await expect(fileIn(containerWith(new PassThrough(), status), '/file', 1)).rejects.toThrow(RuntimeRefused);
    const { container, putArchive } = refusingContainer('', status);
    await expect(filesInto(container, '/', new PassThrough())).rejects.toThrow('has not been started');
    expect(putArchive).not.toHaveBeenCalled();
    await expect(statsIn(container)).rejects.toThrow('has not been started');
  });

  it.each([
    [0o644, 'file'],
    [2 ** 31 + 0o755, 'directory'],
    [2 ** 27 + 0o777, 'link'],
    [2 ** 25 + 0o644, 'pipe'],
    [2 ** 26 + 2 ** 21 + 0o666, 'device'],
    [2 ** 24, 'socket'],
  ])('is reported as the engine reports it: %d', async (mode, kind) => {
    const header = Buffer.from(JSON.stringify({ name: 'x', size: 7, mode, linkTarget: '' })).toString('base64');
    const answer = { headers: { 'x-docker-container-path-stat': header }, resume: () => undefined };
    const container = { id: 'x', inspect: async () => ({ State: { Status: 'created' } }), infoArchive: async () => answer };
    const stat = await statsIn(container as unknown as Dockerode.Container);
    expect(await stat('/x')).toEqual({ kind, size: 7, target: '' });
  });
});

describe('files that the engine can’t unpack', () => {
  it.each([
    [
      'Error processing tar file(exit status 1): unlinkat /var/lib/docker/overlay2/af3/merged/service: device or resource busy',
      'in their way',
    ],
    ['mkdir /var/lib/docker/overlay2/af3/merged/etc/passwd: not a directory', 'in their way'],
    ['container rootfs is marked read-only', 'read-only'],
    ['write /var/lib/docker/overlay2/af3/merged/a: no space left on device', 'no room'],
  ])('are refused with our own message, without a path of the host: %s', async (said, told) => {
    const error = await filesInto(refusingContainer(said).container, '/', new PassThrough()).catch((refusal: Error) => refusal);
    expect(error).toBeInstanceOf(RuntimeRefused);
    expect((error as Error).message).toContain(told);
    expect((error as Error).message).not.toMatch(/\/var|overlay|tar file/);
  });
});
