import { connect } from 'node:net';

import { Controller, Get, Param } from '@nestjs/common';

import type { TestServer } from '../../../test/support/http-server.ts';
import { expectProblem, grants, startSampleServer } from '../../../test/support/sample-server.ts';
import { untilTrue } from '../../../test/support/until.ts';
import { RequireCaller } from '../auth/access.ts';
import { LargeRead } from './large-reads.interceptor.ts';
import { LargeReads } from './large-reads.ts';

const MIB = 1_048_576;

/** The reads that have begun, and the ends for which they wait. */
const begun: string[] = [];
const ends = new Map<string, () => void>();

@Controller('t')
@LargeRead()
class LargeController {
  @Get('held/:name') @RequireCaller() async held(@Param('name') name: string) {
    begun.push(name);
    await new Promise<void>((resolve) => ends.set(name, resolve));
    return { name };
  }
  @Get('large/:mib') @RequireCaller() large(@Param('mib') mib: string) {
    return { text: 'x'.repeat(Number(mib) * MIB) };
  }
}

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer(LargeController, { MOORING_LARGE_READS_MB_PER_SECOND: '1' });
});
afterAll(() => server?.close());

const get = (path: string, credential: string) => server.request('GET', path, { credential });
function account(name: string): string {
  grants[`mk_${name}`] = { accountId: name, scopes: new Set() };
  return `mk_${name}`;
}

describe('reads whose responses are large', () => {
  it('run four at a time for one account; the others wait, and those of another account do not', async () => {
    const [busy, other] = [account('busy'), account('unhurried')];
    const names = ['one', 'two', 'three', 'four'];
    const running = names.map((name) => get(`/t/held/${name}`, busy));
    await untilTrue(() => begun.length === 4);
    const gone = connect(Number(new URL(server.url).port), '127.0.0.1');
    gone.write(`GET /t/held/gone HTTP/1.1\r\nHost: x\r\nX-API-Key: ${busy}\r\n\r\n`);
    const waiting = get('/t/held/five', busy);
    expect((await get('/t/large/0', other)).status).toBe(200);
    expect(begun.toSorted()).toEqual(names.toSorted());
    gone.destroy();
    await untilTrue(() => server.logLines.some((line) => line.includes('"aborted":true')));
    ends.get('one')?.();
    await untilTrue(() => begun.includes('five'));
    for (const end of ends.values()) end();
    for (const answer of await Promise.all([...running, waiting])) expect(answer.status).toBe(200);
    expect(begun).not.toContain('gone');
  });

  it('wait until their account has earned what it was sent, and those of another account do not', async () => {
    const [greedy, other] = [account('greedy'), account('modest')];
    // The time is taken before the bytes are counted, because a busy machine takes a while to receive them.
    const began = performance.now();
    expect((await get('/t/large/5', greedy)).status).toBe(200);
    const waiting = get('/t/large/0', greedy);
    expect((await get('/t/large/0', other)).status).toBe(200);
    expect((await waiting).status).toBe(200);
    // Four of the five megabytes were saved up, and one is earned in a second.
    expect(performance.now() - began).toBeGreaterThan(950);
  });

  it('are refused if they wait for too long', async () => {
    const reads = server.app.get(LargeReads);
    const { patienceMs } = reads;
    reads.patienceMs = 200;
    const impatient = account('impatient');
    expect((await get('/t/large/12', impatient)).status).toBe(200);
    const refused = await get('/t/large/0', impatient);
    reads.patienceMs = patienceMs;
    expectProblem(refused, 429, 'rate_limited');
    expect(refused.headers.get('retry-after')).toBe('1');
  });
});
