import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FetchBudget } from './fetch-budget.ts';
import { fetchLfsObjects, type LfsFetch } from './lfs-objects.ts';
import type { LfsPointer } from './named-contents.ts';

let server: Server;
let folder: string;
/** The bytes with which the server responds to anything. */
let response: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mooring-lfs-'));
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write(response));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Fetches what the pointers name, within 1000 bytes. */
function fetchOf(pointers: LfsPointer[], signal = new AbortController().signal) {
  const endpoint = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/a.git/info/lfs`);
  const budget = new FetchBudget({ receivedBytesMax: 1_000, filesBytesMax: 1_000, filesMax: 10, seconds: 60 });
  const fetch: LfsFetch = {
    server: { endpoint, isAllowed: true, credential: null },
    directory: folder,
    temporary: join(folder, 'object'),
    budget,
    signal,
  };
  return fetchLfsObjects(fetch, pointers);
}

const object = { oid: '0'.repeat(64), size: 1 };

describe('a server of Git LFS', () => {
  it('that switches to another protocol is given up', async () => {
    response = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';
    expect(await fetchOf([{ path: 'model.bin', object }])).toEqual([
      'Files in Git LFS are not fetched, so that they hold only pointers: "model.bin". The server of Git LFS could not be reached, or broke the connection.',
    ]);
  });

  it('that never responds is given up once the fetch ends', async () => {
    response = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n';
    const asked = once(server, 'connection');
    const stop = new AbortController();
    const fetching = fetchOf([{ path: 'model.bin', object }], stop.signal);
    await asked;
    stop.abort(new Error('canceled'));
    await expect(fetching).rejects.toThrow('canceled');
  });
});

it('takes time in proportion to the files for many files of one object', async () => {
  const msFor = async (count: number): Promise<number> => {
    const pointers = Array.from({ length: count }, (_, at) => ({ path: `models/${at}.bin`, object: { ...object, size: 2_000 } }));
    const begin = performance.now();
    const [note] = await fetchOf(pointers);
    expect(note).toContain(`and ${count - 5} more. They are larger than the files of a repository may be.`);
    return performance.now() - begin;
  };
  await msFor(1_000);
  // Copying the list for each file takes more than a minute for these, and keeping one list far less than a second.
  expect(await msFor(200_000)).toBeLessThan(5_000);
});
