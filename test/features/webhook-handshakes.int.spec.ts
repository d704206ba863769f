import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import { tokenlessConversation, webhookConversation } from '../../src/features/messages/index.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';

const PATH = '/hooks';
const CHALLENGE = 'a challenge of the sender';

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

/** The program of the agents: it answers the handshakes of Slack, Meta and Trello, and in other ways if the query says so. */
const seen: Seen[] = [];
const program = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk: Buffer) => (body += chunk.toString()));
  request.on('end', () => {
    const { method = '', url = '', headers } = request;
    if (url === '/healthz') return void response.end();
    // Messages of other tests may still be delivered.
    if (url === '/messages') return void response.end('{"response":"read"}');
    seen.push({ method, url, headers, body });
    answer(new URL(url, 'http://agent').searchParams, body, response);
  });
});

function answer(query: URLSearchParams, body: string, response: ServerResponse): void {
  const challenge = query.get('hub.challenge');
  switch (query.get('do')) {
    case 'refuse':
      response.writeHead(403, { 'content-type': 'text/plain', 'x-reason': 'wrong verify_token', 'set-cookie': 'a=b' }).end('no');
      return;
    case 'flood':
      response.writeHead(200).end('x'.repeat(100_000));
      return;
    case 'hang':
      return;
    case 'break':
      response.destroy();
      return;
    default:
      if (challenge === null) response.writeHead(200, { 'content-type': 'application/json' }).end(body);
      else response.writeHead(200, { 'content-type': 'text/plain' }).end(challenge);
  }
}

let talk: ChatFixture;
let agentId: string;
let token: string;

beforeAll(async () => {
  program.listen(0, '127.0.0.1');
  await once(program, 'listening');
  talk = await startChatFixture({});
});
beforeEach(async () => {
  const { port } = program.address() as AddressInfo;
  jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: '127.0.0.1', port });
  agentConnectionPool.closeIdle();
  seen.length = 0;
  agentId = await answering(PATH);
  token = (await talk.ask('GET', `${address()}/token`)).json.token as string;
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  await talk?.server.close();
  program.closeAllConnections();
  program.close();
});

/** Deploys an agent that answers handshakes on that path. */
async function answering(path: string): Promise<string> {
  const made = await talk.fixture.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
  await talk.ask('PATCH', `/api/v1/agents/${made}`, { webhook_handshake: path });
  expect(await talk.ask('POST', `/api/v1/agents/${made}/deploy`)).toMatchObject({ status: 200, json: { status: 'active' } });
  return made;
}

const address = () => `/api/webhooks/${agentId}`;
const withToken = (query = '') => `${address()}?${query}${query === '' ? '' : '&'}token=${token}`;
const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  talk.server.request(method, path, {
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
const verification = { token: 'of Slack', challenge: CHALLENGE, type: 'url_verification' };
const problem = (status: number, code: string) => ({ status, json: { status, code, detail: expect.any(String) } });
const handshakes = async () => (await talk.events(webhookConversation(agentId))).filter(({ type }) => type === 'HandshakeAccepted');

describe('a handshake', () => {
  it('of Slack is answered with what the agent answers, and is no message', async () => {
    const headers = { 'x-slack-signature': 'v0=ab', cookie: 'canary=1' };
    const answered = await send('POST', withToken(), verification, headers);
    expect(answered).toMatchObject({ status: 200, json: verification });
    expect(answered.headers.get('content-type')).toBe('application/json');
    expect(seen).toMatchObject([
      { method: 'POST', url: PATH, body: JSON.stringify(verification), headers: { 'x-slack-signature': 'v0=ab' } },
    ]);
    expect(JSON.stringify(seen)).not.toMatch(/canary|mwh_/);
    expect((await talk.ask('GET', `/api/agents/${agentId}/deliveries`)).json).toEqual([]);
  });

  it('of Meta and WebSub is answered with the challenge in its query', async () => {
    const query = `hub.mode=subscribe&hub.challenge=${encodeURIComponent(CHALLENGE)}&hub.verify_token=s3cret`;
    expect(await send('GET', withToken(query))).toMatchObject({ status: 200, text: CHALLENGE });
    expect(seen).toMatchObject([{ method: 'GET', url: `${PATH}?${query}` }]);
  });

  it('of Trello is answered to HEAD', async () => {
    const answered = await send('HEAD', withToken());
    expect([answered.status, answered.text]).toEqual([200, '']);
    expect(seen).toMatchObject([{ method: 'HEAD', url: PATH }]);
  });

  it('may have its token in the header', async () => {
    expect((await send('GET', address(), undefined, { 'x-service-webhook-token': token })).status).toBe(200);
    expect(seen[0]?.headers).not.toHaveProperty('x-service-webhook-token');
  });

  it('wakes an agent that sleeps', async () => {
    expect((await talk.ask('POST', `/api/agents/${agentId}/sleep`)).json.status).toBe('sleeping');
    expect(await send('GET', withToken('hub.challenge=1'))).toMatchObject({ status: 200, text: '1' });
    expect((await talk.ask('GET', `/api/agents/${agentId}`)).json.status).toBe('active');
  });

  it('keeps the status and the headers of the agent’s response, but no cookie, and no script runs under the service’s address', async () => {
    const answered = await send('GET', withToken('do=refuse'));
    expect(answered).toMatchObject({ status: 403, text: 'no' });
    expect(answered.headers.get('x-reason')).toBe('wrong verify_token');
    expect(answered.headers.get('set-cookie')).toBeNull();
    expect(answered.headers.get('content-security-policy')).toContain('sandbox');
  });

  it('is an event, with its sender and without what it holds', async () => {
    await send('GET', withToken('hub.challenge=canary'));
    await send('HEAD', withToken());
    const events = await handshakes();
    expect(events.map(({ data, metadata }) => [data.method, metadata.actor.kind])).toEqual([
      ['GET', 'webhook'],
      ['HEAD', 'webhook'],
    ]);
    expect(JSON.stringify(events)).not.toContain('canary');
    const { json: audit } = await talk.ask('GET', `/api/v1/audit?agent_id=${agentId}&type=HandshakeAccepted`);
    expect(audit.map(({ summary }: { summary: string }) => summary).toSorted()).toEqual([
      'Accepted a sender’s handshake for the agent (GET)',
      'Accepted a sender’s handshake for the agent (HEAD)',
    ]);
    const { json: lines } = await talk.ask('GET', `/api/agents/${agentId}/logs`);
    expect(lines.filter(({ source }: { source: string }) => source === 'webhook')).toMatchObject([
      { level: 'info', message: 'Accepted a sender’s handshake for the agent (GET).' },
      { level: 'info', message: 'Accepted a sender’s handshake for the agent (HEAD).' },
    ]);
  });
});

describe('a handshake that is not answered', () => {
  it('is one without the agent’s token, or with another', async () => {
    const other = await talk.ask('GET', `/api/webhooks/${await answering(PATH)}/token`);
    for (const path of [address(), `${address()}?token=mwh_${'x'.repeat(43)}`, `${address()}?token=${other.json.token}`]) {
      for (const method of ['GET', 'HEAD']) expect((await send(method, path)).status).toBe(401);
      expect(await send('POST', path, verification)).toMatchObject(problem(401, 'unauthenticated'));
    }
    expect(seen).toEqual([]);
    expect(await talk.events(tokenlessConversation(agentId))).toEqual([]);
  });

  it('is one to an agent that is unknown', async () => {
    const unknown = '/api/webhooks/01890000-0000-7000-8000-000000000000';
    for (const path of [unknown, `${unknown}?token=${token}`]) {
      expect(await send('GET', path)).toMatchObject(problem(404, 'agent_not_found'));
      expect(await send('POST', path, verification)).toMatchObject(problem(404, 'agent_not_found'));
    }
  });

  it('is one beyond the budget of the sender, on which its webhooks draw too', async () => {
    for (let n = 0; n < 15; n += 1) expect((await send('GET', withToken())).status).toBe(200);
    for (let n = 0; n < 15; n += 1) expect((await send('POST', withToken(), { n })).status).toBe(202);
    for (const refused of [
      await send('GET', withToken()),
      await send('POST', withToken(), verification),
      await send('POST', withToken(), {}),
    ]) {
      expect(refused).toMatchObject(problem(429, 'rate_limited'));
      expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
    }
    expect(await handshakes()).toHaveLength(15);
  });

  it('is one whose response is too large, or none', async () => {
    expect(await send('GET', withToken('do=flood'))).toMatchObject(problem(502, 'agent_failed'));
    expect(await send('GET', withToken('do=break'))).toMatchObject(problem(502, 'agent_failed'));
  });

  it('is one that the agent keeps waiting for too long', async () => {
    expect(await send('GET', withToken('do=hang'))).toMatchObject(problem(504, 'reply_timeout'));
  });

  it('is one to an agent that is stopped', async () => {
    await talk.ask('POST', `/api/agents/${agentId}/stop`);
    expect(await send('GET', withToken())).toMatchObject(problem(409, 'agent_unavailable'));
  });
});

describe('an agent that answers no handshakes', () => {
  beforeEach(async () => {
    agentId = await talk.deployed();
    token = (await talk.ask('GET', `${address()}/token`)).json.token as string;
  });

  it('takes no GET and no HEAD, with the token and without', async () => {
    for (const path of [withToken(), address()]) {
      const refused = await send('GET', path);
      expect(refused).toMatchObject(problem(405, 'method_not_allowed'));
      expect(refused.headers.get('allow')).toBe('POST');
      expect((await send('HEAD', path)).status).toBe(405);
    }
    expect(seen).toEqual([]);
  });

  it('gets Slack’s handshake as a message', async () => {
    expect(await send('POST', withToken(), verification)).toMatchObject({ status: 202, json: { accepted: true } });
  });
});

describe('a webhook to an agent that answers handshakes', () => {
  it.each([
    ['of another type', JSON.stringify({ type: 'event_callback', challenge: CHALLENGE })],
    ['with such a text in another member', JSON.stringify({ type: 'x', text: 'url_verification' })],
    ['that is no object', JSON.stringify(['url_verification'])],
    ['that is no JSON', 'url_verification'],
    ['that is too long for a handshake', JSON.stringify({ ...verification, pad: 'x'.repeat(20_000) })],
  ])('is a message if it is one %s', async (_, body) => {
    expect(await talk.server.request('POST', withToken(), { body })).toMatchObject({ status: 202, json: { accepted: true } });
    expect(await handshakes()).toEqual([]);
  });
});
