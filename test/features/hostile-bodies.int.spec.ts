import { CommandBus } from '@nestjs/cqrs';
import type { FastifyInstance } from 'fastify';

import { OpenAccount } from '../../src/features/accounts/accounts.commands.ts';
import { AppModule } from '../../src/app.module.ts';
import { PacedRefusals, refusalRate } from '../../src/http/limits/paced-refusals.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { hostileBodies, hostileFor } from '../support/hostile-bodies.ts';
import { startTestServer, type TestServer } from '../support/http-server.ts';
import { type RouteWithBody, routesWithBodies } from '../support/routes.ts';

/** The limit of a body's processor time, as a multiple of that of an ordinary body of the same size. */
const TIMES_AN_ORDINARY_BODY = 5;
const TRIES = 10;

const account = { email: 'root@example.org', password: 'correct horse battery', name: 'root', role: 'admin' as const };

type Sent = Awaited<ReturnType<typeof send>>;

const routes = routesWithBodies();

let server: TestServer;
let fastify: FastifyInstance;
let session: string;

beforeAll(async () => {
  const environment = { MOORING_RUNTIME: 'local', MOORING_OPEN_REGISTRATION: 'on', MOORING_LARGE_READS_MB_PER_SECOND: '100000' };
  server = await startTestServer((config) => ({ imports: [AppModule.forRoot(config, { allowUnsafeDatabase: true })] }), environment);
  Object.assign(server.app.get(PacedRefusals, { strict: false }).rate, refusalRate(1_000_000));
  fastify = server.app.getHttpAdapter().getInstance();
  await server.app.get(CommandBus).execute(new OpenAccount(systemContext('test', null), account, null));
  const { email, password } = account;
  session = (await server.request('POST', '/api/auth/login', { json: { email, password } })).json.session_token;
});
afterAll(() => server?.close());

function send({ method, url }: Pick<RouteWithBody, 'method' | 'url'>, payload: string) {
  // The session is an ended one, so that this test signs no caller out.
  const credential = url === '/api/auth/logout' ? 'ms_over' : session;
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${credential}` };
  return fastify.inject({ method, url, payload, headers });
}

/** Returns the processor time that the work takes in this process, in ms. */
async function cost(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/**
 * Returns null if the work costs at most that many times as much as the other at its cheapest, or as the other in one of the tries, or else the
 * lowest ratio. Other work on the machine makes either of them dearer at different times.
 */
async function dearness(work: () => Promise<unknown>, other: () => Promise<unknown>, cheapest: number): Promise<number | null> {
  if ((await cost(work)) <= TIMES_AN_ORDINARY_BODY * cheapest) return null;
  let least = Infinity;
  for (let count = 0; count < TRIES; count += 1) {
    const times = (await cost(work)) / (await cost(other));
    if (times <= TIMES_AN_ORDINARY_BODY) return null;
    least = Math.min(least, times);
  }
  return least;
}

describe('a hostile body of a megabyte', () => {
  it('is refused on every route, and costs little more than an ordinary one', async () => {
    const chat = { method: 'POST' as const, url: '/api/agents/01890000-0000-7000-8000-000000000000/chat' };
    const ordinary = JSON.stringify({ message: 'word '.repeat(200_000) });
    const sendOrdinary = () => send(chat, ordinary);
    let cheapest = Infinity;
    for (let warm = 0; warm < TRIES; warm += 1) cheapest = Math.min(cheapest, await cost(sendOrdinary));
    const dear: string[] = [];
    const accepted: string[] = [];
    for (const route of routes) {
      for (const [what, body] of [...hostileBodies, ...route.fields.flatMap(hostileFor)]) {
        const answers: Sent[] = [];
        const times = await dearness(async () => answers.push(await send(route, body)), sendOrdinary, cheapest);
        const { statusCode, headers, body: said } = answers[0] as Sent;
        const named = `${route.method} ${route.url} with ${what}`;
        if (times !== null) dear.push(`${named}: ${times.toFixed(1)} times an ordinary body`);
        // The route of tools answers in the form of its protocol, JSON-RPC.
        const isProblem =
          String(headers['content-type']).startsWith('application/problem+json') || said.startsWith('{"jsonrpc":"2.0","error"');
        const isRefused = statusCode >= 400 && statusCode < 500 && isProblem;
        if (!isRefused || said.length > 50_000) accepted.push(`${named}: ${statusCode} ${said.slice(0, 200)}`);
      }
    }
    expect({ dear, accepted }).toEqual({ dear: [], accepted: [] });
    expect(routes.flatMap(({ fields }) => fields).length).toBeGreaterThan(30);
  });
});
