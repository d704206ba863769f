import type { TestResponse, TestServer } from '../../../test/support/http-server.ts';
import { expectProblem, seen, startSampleServer } from '../../../test/support/sample-server.ts';
import { until } from '../../../test/support/until.ts';
import { OpenRequests } from '../auth/open-requests.ts';
import { PacedRefusals, refusalRate } from './paced-refusals.ts';

/** With four refusals a second, the last of so many is held back for 2.5 s. */
const MANY = 14;

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
  Object.assign(server.app.get(PacedRefusals, { strict: false }).rate, refusalRate(4));
});
afterAll(() => server?.close());

const right = { name: 'a' };
const wrong = { name: 1 };
const post = (json: object, credential?: string) => server.request('POST', '/t/things', { json, credential });

/** Sends all of the requests at once, and returns how many were answered so far. */
function flood(send: () => Promise<TestResponse>): { answers: Promise<TestResponse[]>; answered: () => number } {
  let count = 0;
  const sent = Array.from({ length: MANY }, async () => {
    const answer = await send();
    count += 1;
    return answer;
  });
  return { answers: Promise.all(sent), answered: () => count };
}

describe('refusals of a caller that gets many of them', () => {
  it('are held back, and neither its right requests nor the refusals of others are', async () => {
    const { answers, answered } = flood(() => post(wrong, 'mk_manage'));
    await until('the first is answered', () => (answered() > 0 ? true : undefined));
    expect((await post(right, 'mk_manage')).status).toBe(201);
    expectProblem(await post(wrong, 'mk_other'), 400, 'invalid_request');
    expect(answered()).toBeLessThan(MANY);
    for (const answer of await answers) expectProblem(answer, 400, 'invalid_request');
  });

  it('are held back for strangers of one network, who hold back no caller that is known', async () => {
    const { answers, answered } = flood(() => post(right));
    await until('the first is answered', () => (answered() > 0 ? true : undefined));
    expect((await post(right, 'mk_other')).status).toBe(201);
    expect(answered()).toBeLessThan(MANY);
    for (const answer of await answers) expectProblem(answer, 401, 'unauthenticated');
  });

  it('are not held back where they tell the state of something', async () => {
    const held = flood(() => post(wrong, 'mk_deploy'));
    const { answers } = flood(() => server.request('GET', '/t/fails/refusal', { credential: 'mk_deploy' }));
    for (const answer of await answers) expectProblem(answer, 402, 'seat_limit');
    expect(held.answered()).toBeLessThan(MANY);
    await held.answers;
  });

  it('are held back for strangers who ask for what does not exist, and not for known callers', async () => {
    const { answers, answered } = flood(() => server.request('GET', '/t/fails/missing'));
    await until('the first is answered', () => (answered() > 0 ? true : undefined));
    const known = flood(() => server.request('GET', '/t/missing', { credential: 'mk_computers' }));
    for (const answer of await known.answers) expectProblem(answer, 404, 'agent_not_found');
    expect(answered()).toBeLessThan(MANY);
    for (const answer of await answers) expectProblem(answer, 404, 'agent_not_found');
  });

  it('are not held back where a credential ends while its callers wait', async () => {
    let release: () => void = () => undefined;
    seen.gate = new Promise((resolve) => (release = resolve));
    const before = seen.made.length;
    const held = flood(() => post(wrong, 'mk_manage'));
    const { answers } = flood(() => server.request('POST', '/t/once', { json: right, credential: 'mk_provision' }));
    await until('all wait', () => (seen.made.length === before + MANY ? true : undefined));
    server.app.get(OpenRequests).end('mk_provision');
    for (const answer of await answers) expectProblem(answer, 401, 'unauthenticated');
    expect(held.answered()).toBeLessThan(MANY);
    release();
    await held.answers;
  });

  it('are counted with the time for which they were held back', async () => {
    const { text } = await server.request('GET', '/metrics');
    expect(text).toMatch(/^mooring_http_refusal_wait_seconds_count [1-9]/m);
  });
});
