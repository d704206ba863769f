import { Controller, Get, Post } from '@nestjs/common';

import type { TestServer } from '../../../test/support/http-server.ts';
import { startSampleServer } from '../../../test/support/sample-server.ts';
import { until } from '../../../test/support/until.ts';
import { RequireCaller } from '../auth/access.ts';
import { type RequestContext, CurrentRequest } from './request-context.ts';
import { OwnRoutes } from './own-routes.ts';
import { trackEndlessResponses } from '../requests/endless-responses.ts';
import { ResponseStreams, type Streamed } from './response-streams.ts';

const seen = { given: 0, ended: false, waiting: false };

@Controller('own')
class OwnController {
  constructor(
    private readonly routes: OwnRoutes,
    private readonly streams: ResponseStreams,
  ) {}

  @Get('caller') @RequireCaller() caller(@CurrentRequest() call: RequestContext): object {
    return { id: call.caller.id, requestId: call.requestId, origin: call.origin, ...call.reachedBy };
  }

  @Post('wait') @RequireCaller() async wait(@CurrentRequest() call: RequestContext): Promise<void> {
    seen.waiting = true;
    await new Promise<void>((resolve) => call.onClose(resolve));
    seen.ended = true;
  }

  @Get('lines') @RequireCaller() lines(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.ndjson(call, () => Promise.resolve(items()));
  }

  /** Returns the response of another route of this service. */
  @Get('inner') @RequireCaller() async inner(@CurrentRequest() call: RequestContext): Promise<unknown> {
    const request = { method: 'GET', path: '/own/caller', headers: {}, body: null };
    const response = await this.routes.send(call, request, call.goneSignal());
    return JSON.parse(Buffer.concat(await response.toArray()).toString());
  }

  @Get('abort') @RequireCaller() async abort(@CurrentRequest() call: RequestContext): Promise<string> {
    const leaving = new AbortController();
    const request = { method: 'POST', path: '/own/wait', headers: { 'content-type': 'application/json' }, body: '{"a":1}' };
    const sent = this.routes.send(call, request, leaving.signal).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    await until('it waits', () => Promise.resolve(seen.waiting ? true : undefined));
    leaving.abort(new Error('not needed any more'));
    return sent;
  }

  @Get('leave') @RequireCaller() async leave(@CurrentRequest() call: RequestContext): Promise<void> {
    const request = { method: 'GET', path: '/own/lines', headers: {}, body: null };
    const response = await this.routes.send(call, request, call.goneSignal());
    for await (const chunk of response) if ((chunk as Buffer).length > 0) break;
  }
}

async function* items(): AsyncGenerator<object> {
  try {
    for (;;) {
      seen.given += 1;
      yield { text: 'x'.repeat(1_000) };
    }
  } finally {
    seen.ended = true;
  }
}

let server: TestServer;
beforeAll(async () => void (server = await startSampleServer(OwnController)));
afterAll(() => server?.close());
beforeEach(() => void Object.assign(seen, { given: 0, ended: false, waiting: false }));

describe('a request of the service to its own routes', () => {
  it('has the caller, the address, the host and the request id of the call that it is sent for', async () => {
    const headers = { 'x-request-id': 'asked-once', host: 'mooring.example' };
    const outer = await server.request('GET', '/own/caller', { credential: 'mk_none', headers });
    const inner = await server.request('GET', '/own/inner', { credential: 'mk_none', headers });
    expect(inner.json).toEqual(outer.json);
    expect(inner.json).toMatchObject({ requestId: 'asked-once', address: expect.stringContaining('127.0.0.1') });
    const logged = server.logLines.map((line) => JSON.parse(line) as { request_id?: string; route?: string });
    expect(logged.filter(({ request_id }) => request_id === 'asked-once').map(({ route }) => route)).toEqual([
      '/own/caller',
      '/own/caller',
      '/own/inner',
    ]);
  });

  it('that is abandoned ends as if its caller had gone away', async () => {
    expect((await server.request('GET', '/own/abort', { credential: 'mk_none' })).text).toBe('not needed any more');
    await until('the route has ended', () => Promise.resolve(seen.ended ? true : undefined));
  });

  it('is produced no faster than it is read, and ends when it is not read any more', async () => {
    await server.request('GET', '/own/leave', { credential: 'mk_none' });
    await until('the stream has ended', () => Promise.resolve(seen.ended ? true : undefined));
    expect(seen.given).toBeLessThan(5_000);
  });

  it('leaves no connection behind', async () => {
    for (let count = 0; count < 5; count += 1) await server.request('GET', '/own/inner', { credential: 'mk_none' });
    await until('all connections are closed', () =>
      Promise.resolve(trackEndlessResponses(server.app.getHttpServer()).size === 0 ? true : undefined),
    );
  });
});
