import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import { Controller, Get, Param } from '@nestjs/common';

import type { TestServer } from '../../../test/support/http-server.ts';
import { grants, startSampleServer } from '../../../test/support/sample-server.ts';
import { span, until } from '../../../test/support/until.ts';
import { RequireCaller } from '../auth/access.ts';
import { UnsentResponses } from './unsent-responses.ts';

const MIB = 1_048_576;
/** More than the buffers of a connection take. */
const LARGE_MIB = 12;

@Controller('t')
class LargeController {
  @Get('large/:mib') @RequireCaller() large(@Param('mib') mib: string) {
    return { text: 'x'.repeat(Number(mib) * MIB) };
  }
}

let server: TestServer;
let sockets: Socket[] = [];
beforeAll(async () => {
  server = await startSampleServer(LargeController);
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  await until('nothing is held any more', async () => ((await held()) === 0 ? true : undefined));
});
afterAll(() => server?.close());

/** Asks for a large response, and waits until its beginning has come. Nothing more of it is taken. */
async function ask(credential: string, id: string, mib = LARGE_MIB): Promise<Socket> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => undefined);
  socket.write(`GET /t/large/${mib} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${credential}\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n`);
  await once(socket, 'readable');
  return socket;
}

const ended = (id: string) =>
  server.logLines.map((line) => JSON.parse(line)).find((entry) => entry.request_id === id && entry.msg === 'request');
const endOf = (id: string) => until(`${id} has ended`, () => ended(id));

async function metric(name: string): Promise<number> {
  const { text } = await server.request('GET', '/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}
const held = () => metric('mooring_http_unsent_bytes');

/** Returns the number of bytes that come until the connection ends. */
async function taken(socket: Socket): Promise<number> {
  let bytes = 0;
  for await (const chunk of socket) bytes += (chunk as Buffer).length;
  return bytes;
}

describe('responses that their callers do not take', () => {
  it('are cut off, the oldest first, when an account has too much of them; those of another are not', async () => {
    const other = await ask('mk_other', 'other');
    await ask('mk_manage', 'first');
    expect(ended('first')).toBeUndefined();
    await ask('mk_deploy', 'second');
    expect(await endOf('first')).toMatchObject({ status: 200, aborted: true });
    expect([ended('second'), ended('other')]).toEqual([undefined, undefined]);
    expect(await taken(other)).toBeGreaterThan(LARGE_MIB * MIB);
    expect(await endOf('other')).not.toHaveProperty('aborted');
    expect(await metric('mooring_http_cut_responses{why="bytes"}')).toBe(1);
  });

  it('are cut off where most is held, when all accounts together have too much', async () => {
    const accounts = Array.from({ length: 5 }, (_, index) => `mk_tenant${index}`);
    for (const key of accounts) grants[key] = { accountId: key, scopes: new Set() };
    await ask('mk_tenant0', 'most', 15);
    for (const key of accounts.slice(1)) await ask(key, key, 13);
    expect(await endOf('most')).toMatchObject({ aborted: true });
    expect(accounts.map(ended)).toEqual(accounts.map(() => undefined));
    expect(await held()).toBeLessThanOrEqual(64 * MIB);
  });

  it('are cut off after a time in which nothing was taken, and not while something is', async () => {
    server.app.get(UnsentResponses).silenceMs = 1_500;
    await ask('mk_manage', 'silent');
    const slow = await ask('mk_other', 'slow');
    let bytes = 0;
    for await (const chunk of slow) {
      bytes += (chunk as Buffer).length;
      if (ended('silent') === undefined) await span(10);
    }
    expect(bytes).toBeGreaterThan(LARGE_MIB * MIB);
    expect(await endOf('silent')).toMatchObject({ aborted: true });
    expect(await endOf('slow')).not.toHaveProperty('aborted');
    expect(await metric('mooring_http_cut_responses{why="silence"}')).toBe(1);
  });
});
