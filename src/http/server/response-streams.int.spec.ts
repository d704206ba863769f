import { get, type IncomingMessage } from 'node:http';

import { Controller, Get } from '@nestjs/common';

import type { TestServer } from '../../../test/support/http-server.ts';
import { startSampleServer } from '../../../test/support/sample-server.ts';
import { until } from '../../../test/support/until.ts';
import { RequireCaller } from '../auth/access.ts';
import { type RequestContext, CurrentRequest } from './request-context.ts';
import { ResponseStreams, type Streamed } from './response-streams.ts';

const TOTAL = 100_000;
const source = { total: TOTAL, given: 0, ended: false };

@Controller('t')
class ExportController {
  constructor(private readonly streams: ResponseStreams) {}

  @Get('export') @RequireCaller() export(@CurrentRequest() call: RequestContext): Promise<Streamed> {
    return this.streams.ndjson(call, () => Promise.resolve(items()));
  }
}

async function* items(): AsyncGenerator<object> {
  try {
    for (source.given = 0; source.given < source.total; source.given++) yield { n: source.given, text: 'x'.repeat(1_000) };
  } finally {
    source.ended = true;
  }
}

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer(ExportController);
});
afterAll(() => server?.close());
beforeEach(() => {
  source.total = TOTAL;
  source.ended = false;
});

const open = () =>
  new Promise<IncomingMessage>((resolve) =>
    get(`${server.url}/t/export`, { headers: { connection: 'close', 'x-api-key': 'mk_none' } }, resolve),
  );

it('sends one line per item, to the last', async () => {
  source.total = 10_000;
  const { status, headers, text } = await server.request('GET', '/t/export', { credential: 'mk_none' });
  expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
  const lines = text.split('\n');
  expect([lines.length, lines.at(-1)]).toEqual([source.total + 1, '']);
  expect(JSON.parse(lines[source.total - 1] as string)).toMatchObject({ n: source.total - 1 });
});

it('waits for a slow reader, and ends with one that disconnects', async () => {
  const response = await open();
  response.pause();
  let last = -1;
  await until(
    'nothing more is taken from the source',
    () => {
      const stands = source.given === last;
      last = source.given;
      return stands ? true : undefined;
    },
    { everyMs: 500 },
  );
  expect(source).toMatchObject({ ended: false });
  // Buffers between the two hold some megabytes, but not a hundred.
  expect(last).toBeLessThan(TOTAL / 4);
  response.destroy();
  await until('the source has ended', () => source.ended || undefined);
  expect(source.given).toBeLessThan(TOTAL / 4);
});
