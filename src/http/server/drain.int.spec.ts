import { once } from 'node:events';
import { connect } from 'node:net';

import { Controller, Get } from '@nestjs/common';

import { Public, RequireCaller } from '../auth/access.ts';
import { type RequestContext, CurrentRequest } from './request-context.ts';
import { drain } from './drain.ts';
import { ResponseStreams, type ServerSentEvent, type Streamed } from './response-streams.ts';
import { startSampleServer } from '../../../test/support/sample-server.ts';

let answer = () => {};
let asked = () => {};
let isAsked: Promise<void>;
beforeEach(() => {
  isAsked = new Promise((resolve) => (asked = resolve));
});

@Controller('slow')
class SlowController {
  constructor(private readonly streams: ResponseStreams) {}

  @Get() @Public() slow(): Promise<object> {
    asked();
    return new Promise((resolve) => (answer = () => resolve({ done: true })));
  }
  @Get('stream') @RequireCaller() stream(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.events(call, () => Promise.resolve(never()));
  }
}

/** Returns a source that never yields. */
function never(): AsyncIterable<ServerSentEvent> {
  return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) };
}

describe('a stop', () => {
  it('completes running requests, cuts streams that never end, and accepts no new connection', async () => {
    const server = await startSampleServer(SlowController);
    const follow = await fetch(`${server.url}/slow/stream`, { headers: { 'x-api-key': 'mk_none' } });
    const cut = follow.text().then(
      () => 'ended',
      () => 'cut',
    );
    const slow = server.request('GET', '/slow');
    await isAsked;
    const drained = drain(server.app, 20_000);
    await expect(fetch(`${server.url}/health`)).rejects.toThrow('fetch failed');
    expect(await cut).toBe('cut');
    answer();
    expect((await slow).json).toEqual({ done: true });
    await drained;
    await server.close();
  });

  it('does not wait for a connection without a request', async () => {
    const server = await startSampleServer(SlowController);
    const silent = connect(Number(new URL(server.url).port), '127.0.0.1');
    const cut = once(silent, 'close');
    await once(silent, 'connect');
    await server.request('GET', '/health');
    await drain(server.app, 60_000);
    await cut;
    await server.close();
  });

  it('does not wait forever', async () => {
    const server = await startSampleServer(SlowController);
    const slow = server.request('GET', '/slow').catch(() => 'broken off');
    await isAsked;
    await drain(server.app, 200);
    answer();
    await slow;
    await server.close();
  });
});
