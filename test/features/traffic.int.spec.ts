import { once } from 'node:events';
import { Agent as HttpAgent, request as ask, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';

import { EventSource } from 'eventsource';
import OpenAI from 'openai';
import { WebSocket } from 'ws';
import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { AgentExchanges } from '../../src/features/traffic/agent-exchanges.service.ts';
import { hashOfLarge, large, PublicAgent } from '../support/public-agent.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until, untilTrue } from '../support/until.ts';

const DOMAIN = 'agents.example.net';
const LARGE_MIB = 100;
/** The bytes that the system itself keeps of a connection whose reader reads nothing, and what the service may keep besides. */
const UNREAD_BYTES_MAX = 32 * 1_048_576;

let talk: ChatFixture;
let agent: PublicAgent;

beforeAll(async () => {
  agent = await PublicAgent.start();
  talk = await startChatFixture({ MOORING_AGENT_DOMAIN: DOMAIN, MOORING_TRAFFIC: '80' });
  await publish(true);
});
afterAll(async () => {
  await talk?.server.close();
  await agent?.stop();
});
beforeEach(() => {
  jest.spyOn(talk.runtime.inner, 'address').mockImplementation(() => Promise.resolve(agent.address));
  agentConnectionPool.closeIdle();
});
afterEach(async () => {
  jest.restoreAllMocks();
  Object.assign(talk.server.config, { trafficIdleSeconds: 120, replyTimeoutSeconds: 120 });
  for (const response of agent.held.values()) response.destroy();
  agent.held.clear();
  await untilTrue(() => openExchanges() === 0);
});

const pathOf = (rest = '/', agentId = talk.agentId) => `/a/${agentId}${rest}`;
const urlOf = (rest = '/') => `${talk.server.url}${pathOf(rest)}`;
const publish = (isPublic: boolean) => talk.ask('PATCH', `/api/v1/agents/${talk.agentId}`, { public: isPublic });
const get = (rest: string, headers: Record<string, string> = {}) => talk.server.request('GET', pathOf(rest), { headers });
const asleep = async () =>
  expect(await talk.ask('POST', `/api/v1/agents/${talk.agentId}/sleep`)).toMatchObject({ status: 200, json: { status: 'sleeping' } });
const isAwake = async () => (await talk.ask('GET', `/api/v1/agents/${talk.agentId}`)).json.status === 'active';

const openExchanges = () => talk.server.app.get(AgentExchanges, { strict: false }).openCount;

/** Sends a request with any headers, and returns the response, whose body is not read yet. */
async function send(rest: string, headers: Record<string, string>, method = 'GET', body?: Readable): Promise<IncomingMessage> {
  const asking = ask(urlOf(rest), { method, headers, agent: new HttpAgent() });
  if (body === undefined) asking.end();
  else body.pipe(asking);
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  return response;
}

/** Opens a connection whose handshake the agent takes without looking at it. Returns both ends. */
async function upgraded(): Promise<{ socket: Socket; theirs: Socket }> {
  const asking = ask(urlOf('/raw'), { headers: { connection: 'Upgrade', upgrade: 'websocket' } }).end();
  const [, socket] = (await once(asking, 'upgrade')) as [IncomingMessage, Socket];
  socket.on('error', () => undefined);
  const theirs = agent.upgraded.at(-1) as Socket;
  return { socket, theirs };
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const bytes of response) text += String(bytes);
  return text;
}

describe('an agent’s port', () => {
  afterEach(() => publish(true));

  it('is closed to the public until its owner opens it, like that of an agent that does not exist', async () => {
    const unknown = await talk.server.request('GET', pathOf('/', '01890000-0000-7000-8000-000000000000'));
    expect(unknown).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
    const { request_id: _, ...problem } = unknown.json;
    const answers = async () => [await get('/'), await talk.server.request('POST', pathOf('/x'), { body: 'x' })];
    expect((await publish(false)).json.public_url).toBeNull();
    for (const answer of await answers()) expect(answer).toMatchObject({ status: 404, json: problem });
    expect((await publish(true)).json.public_url).toBe(`http://${talk.agentId}.${DOMAIN}:${new URL(talk.server.url).port}/`);
    for (const answer of await answers()) expect(answer.status).toBe(200);
    expect((await talk.ask('GET', `/api/agents/${talk.agentId}`)).json.publicUrl).toContain(DOMAIN);
  });

  it('is closed again when the agent is deleted', async () => {
    const agentId = await talk.deployed();
    await talk.ask('PATCH', `/api/v1/agents/${agentId}`, { public: true });
    expect((await talk.server.request('GET', pathOf('/', agentId))).status).toBe(200);
    await talk.ask('DELETE', `/api/v1/agents/${agentId}`);
    expect(await talk.server.request('GET', pathOf('/', agentId))).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
  });

  it.each([{ public: null }, { public: 'yes' }, { public: 1 }])('is not opened by %j', async (json) => {
    expect(await talk.ask('PATCH', `/api/v1/agents/${talk.agentId}`, json)).toMatchObject({
      status: 400,
      json: { code: 'invalid_request', errors: [{ field: 'public' }] },
    });
  });
});

describe('a request to a public agent', () => {
  it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE', 'REPORT'])(
    'is passed on with %s, without the prefix of its path',
    async (method) => {
      const answer = await talk.server.request(method, pathOf('/x//y%2F..;z?a=%20b&c'));
      expect(answer).toMatchObject({ status: 200, text: `${method} /x//y%2F..;z?a=%20b&c` });
    },
  );

  it.each([['a whole address', () => urlOf('/x?y')]])('may have %s as its target', async (_, path) => {
    const asking = ask(talk.server.url, { path: path() }).end();
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    expect(await textOf(response)).toBe('GET /x?y');
  });

  it('reaches the program in the agent’s container', async () => {
    jest.restoreAllMocks();
    const agentId = await talk.deployed();
    await talk.ask('PATCH', `/api/v1/agents/${agentId}`, { public: true });
    expect(await talk.server.request('GET', pathOf('/healthz', agentId))).toMatchObject({ status: 200 });
  });

  it.each([200, 201, 204, 302, 304, 404, 500, 503])('gets the agent’s own %d', async (status) => {
    const answer = await fetch(urlOf(`/status/${status}`), { redirect: 'manual' });
    expect(answer.status).toBe(status);
    expect([answer.headers.get('location'), answer.headers.get('set-cookie')]).toEqual([pathOf('/next'), `a=b; Path=${pathOf()}`]);
    expect(answer.headers.get('content-security-policy')).toMatch(/^sandbox /);
    expect(await answer.text()).toBe([204, 304].includes(status) ? '' : 'body');
  });

  it('at the agent’s own host name has the agent at the root', async () => {
    const host = `${talk.agentId.toUpperCase()}.${DOMAIN}:8080`;
    const asked = { headers: { host } };
    const raw = ask(`${talk.server.url}/api/v1/agents?x=1`, asked).end();
    const [response] = (await once(raw, 'response')) as [IncomingMessage];
    expect(await textOf(response)).toBe('GET /api/v1/agents?x=1');
    expect(response.headers['content-security-policy']).toBeUndefined();
    expect(agent.last('/api/v1/agents?x=1')?.headers).toMatchObject({ host, 'x-forwarded-host': host });
    const whole = ask(talk.server.url, { path: `http://${host}/whole`, headers: { host } }).end();
    const [ofWhole] = (await once(whole, 'response')) as [IncomingMessage];
    expect(await textOf(ofWhole)).toBe('GET /whole');
    const dotted = ask(`${talk.server.url}/api/v1/agents`, { headers: { host: `${talk.agentId}.${DOMAIN}.:8080` } }).end();
    const [ofDotted] = (await once(dotted, 'response')) as [IncomingMessage];
    expect(await textOf(ofDotted)).toBe('GET /api/v1/agents');
    const nobody = ask(`${talk.server.url}/`, { headers: { host: `nobody.${DOMAIN}` } }).end();
    const [refused] = (await once(nobody, 'response')) as [IncomingMessage];
    expect([refused.statusCode, JSON.parse(await textOf(refused)).code]).toEqual([404, 'agent_not_found']);
  });

  it('passes the caller’s identity to the agent, but not the caller’s credentials for Mooring', async () => {
    await get('/told', { authorization: `Bearer mk_acme`, 'x-api-key': 'sk-own', 'x-forwarded-for': '10.9.9.9', 'x-request-id': 'mine' });
    const { headers = {} } = agent.last('/told') ?? {};
    expect(headers).toMatchObject({
      'x-api-key': 'sk-own',
      'x-forwarded-for': '127.0.0.1',
      'x-request-id': 'mine',
      'x-forwarded-prefix': pathOf(''),
    });
    expect(headers.authorization).toBeUndefined();
  });

  it.each([
    ['compressed', { 'content-encoding': 'gzip', 'content-type': 'application/json' }],
    ['of no media type', { 'content-type': 'nonsense' }],
  ])('may have a body that is %s', async (_, headers) => {
    const answer = await talk.server.request('POST', pathOf('/echo'), { body: 'any bytes', headers });
    expect(answer).toMatchObject({ status: 200, text: 'any bytes' });
  });

  it('is answered while its body still comes', async () => {
    const asking = ask(urlOf('/echo'), { method: 'POST' });
    asking.write('first');
    const [response] = (await once(asking, 'response')) as [IncomingMessage];
    expect(String((await once(response, 'data'))[0])).toBe('first');
    asking.end('last');
    expect(await textOf(response)).toBe('last');
  });

  it(`may send ${LARGE_MIB} MiB and get as much`, async () => {
    const up = await send('/up', {}, 'POST', Readable.from(large(LARGE_MIB)));
    expect(await textOf(up)).toBe(hashOfLarge(LARGE_MIB));
    const down = await send(`/down?mib=${LARGE_MIB}`, {});
    let size = 0;
    for await (const bytes of down) size += (bytes as Buffer).length;
    expect(size).toBe(LARGE_MIB * 1_048_576);
  });

  it.each(['/down?mib=1000', '/a body without end', '/the length of a terabyte'])(
    'reads no more of a response than its caller does, and ends if the caller reads nothing: %s',
    async (path) => {
      talk.server.config.trafficIdleSeconds = 2;
      const response = await send(encodeURI(path), {});
      await untilTrue(() => openExchanges() === 0);
      expect(agent.sentBytes).toBeLessThan(UNREAD_BYTES_MAX);
      response.destroy();
    },
  );
});

describe('a public agent that sleeps', () => {
  it('is woken by a request, which records the caller', async () => {
    await asleep();
    const answer = await get('/hello');
    expect(answer).toMatchObject({ status: 200, text: 'GET /hello' });
    expect(answer.headers.get('x-agent-woken')).toBe('true');
    expect((await get('/hello')).headers.get('x-agent-woken')).toBeNull();
    const woken = (await talk.fixture.events(talk.agentId)).findLast(({ type }) => type === 'AgentWakeRequested');
    expect(woken).toMatchObject({ data: { trigger: 'public' }, metadata: { actor: { kind: 'anonymous' }, account_id: 'acme' } });
  });

  it('is woken once for many requests', async () => {
    await asleep();
    const wakes = async () => (await talk.fixture.types(talk.agentId)).filter((type) => type === 'AgentWakeRequested').length;
    const before = await wakes();
    const answers = await Promise.all(Array.from({ length: 8 }, () => get('/together')));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect((await wakes()) - before).toBe(1);
  });

  it('answers 504 to a request when it does not wake in time, and continues to wake', async () => {
    await asleep();
    const thaw = talk.runtime.inner.thaw.bind(talk.runtime.inner);
    let release = () => {};
    const released = new Promise<void>((resolve) => void (release = resolve));
    jest.spyOn(talk.runtime.inner, 'thaw').mockImplementation((handle) => released.then(() => thaw(handle)));
    talk.server.config.startTimeoutSeconds = 1;
    expect(await get('/late')).toMatchObject({ status: 504, json: { code: 'reply_timeout', detail: 'The agent did not wake in time.' } });
    talk.server.config.startTimeoutSeconds = 60;
    release();
    await until('the agent is awake', async () => ((await isAwake()) ? true : undefined));
    expect(agent.seen.map(({ url }) => url)).not.toContain('/late');
    expect((await get('/later')).headers.get('x-agent-woken')).toBeNull();
  });

  it('is woken by a WebSocket, which passes frames on in both directions', async () => {
    await asleep();
    const socket = new WebSocket(urlOf('/socket').replace('http', 'ws'), ['chat']);
    const headers = once(socket, 'upgrade') as Promise<[IncomingMessage]>;
    await once(socket, 'open');
    expect((await headers)[0].headers['x-agent-woken']).toBe('true');
    for (const sent of ['text', Buffer.alloc(200_000, 1)]) {
      socket.send(sent);
      const [data, isBinary] = (await once(socket, 'message')) as [Buffer, boolean];
      expect([data.equals(Buffer.from(sent as string)), isBinary]).toEqual([true, typeof sent !== 'string']);
    }
    socket.close(4_001, 'enough');
    expect(await once(socket, 'close')).toEqual([4_001, expect.anything()]);
  });

  it('is woken by an EventSource, which connects again when the agent ends the stream', async () => {
    await asleep();
    const source = new EventSource(urlOf('/events'));
    try {
      const heard: string[] = [];
      source.addEventListener('message', ({ data }) => heard.push(data as string));
      for (const [round, text] of ['one', 'two'].entries()) {
        const response = await until('the stream is open', () => agent.held.get('/events'));
        response.write(`data: ${text}\n\n`);
        await untilTrue(() => heard.length === round + 1);
        agent.held.delete('/events');
        response.end();
      }
      expect(heard).toEqual(['one', 'two']);
    } finally {
      source.close();
    }
  });

  it('streams to the client of a model’s API', async () => {
    await asleep();
    const client = new OpenAI({ baseURL: urlOf('/v1'), apiKey: 'sk-of-the-agent', maxRetries: 0 });
    const stream = await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('Hello');
    expect(agent.last('/v1/chat/completions')?.headers.authorization).toBe('Bearer sk-of-the-agent');
  });
});

describe('an open request', () => {
  const held = async () => {
    const rows = await talk.server.app
      .get(Database, { strict: false })
      .query('select from agent_holds where agent_id = $1', [talk.agentId]);
    return rows.length > 0;
  };

  it('keeps the agent awake until it is over', async () => {
    const answer = get('/hold');
    const response = await until('the request is there', () => agent.held.get('/hold'));
    expect([await held(), await isAwake()]).toEqual([true, true]);
    response.end('done');
    expect((await answer).text).toBe('done');
    await untilTrue(async () => !(await held()));
  });

  it('uses one of the agent’s limited places', async () => {
    const streams = await Promise.all(Array.from({ length: 8 }, () => send('/events', {})));
    const refused = await get('/x');
    expect(refused).toMatchObject({ status: 429, json: { code: 'rate_limited' } });
    expect(refused.headers.get('retry-after')).toBe('1');
    for (const stream of streams) stream.destroy();
    await untilTrue(async () => (await get('/x')).status === 200);
  });

  it('ends with its caller', async () => {
    const stream = await send('/events', {});
    const response = await until('the request is there', () => agent.held.get('/events'));
    stream.destroy();
    await untilTrue(() => response.closed);
  });

  it.each(['/hold', '/events', '/raw'])('of which nothing moves is ended: %s', async (path) => {
    talk.server.config.trafficIdleSeconds = 1;
    if (path === '/hold') expect(await get(path)).toMatchObject({ status: 504, json: { code: 'reply_timeout' } });
    else if (path === '/events') await expect(send(path, {}).then(textOf)).rejects.toThrow('aborted');
    else {
      const { socket, theirs } = await upgraded();
      for (const end of [socket, theirs]) end.resume();
      await untilTrue(() => socket.destroyed && theirs.readableEnded);
    }
  });
});

describe('a WebSocket of a public agent', () => {
  it('is refused by the agent’s own answer', async () => {
    const socket = new WebSocket(urlOf('/refuse').replace('http', 'ws'));
    socket.on('error', () => undefined);
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([response.statusCode, await textOf(response)]).toEqual([403, 'no']);
  });

  it('reads no more of an agent that floods it than its caller reads', async () => {
    talk.server.config.trafficIdleSeconds = 2;
    const { socket, theirs: flooding } = await upgraded();
    socket.pause();
    const frame = Buffer.concat([Buffer.from([0x82, 126, 0xff, 0xff]), Buffer.alloc(65_535)]);
    const more = () => {
      while (!flooding.destroyed && flooding.write(frame));
    };
    flooding.on('drain', more);
    more();
    await untilTrue(() => flooding.destroyed);
    expect(flooding.bytesWritten).toBeLessThan(UNREAD_BYTES_MAX);
    socket.destroy();
  });

  it('may be closed by one side while the other still sends', async () => {
    const { socket, theirs } = await upgraded();
    socket.end('last words');
    expect(String((await once(theirs, 'data'))[0])).toBe('last words');
    theirs.end('farewell');
    expect(String((await once(socket, 'data'))[0])).toBe('farewell');
    await untilTrue(() => socket.destroyed);
  });
});

describe('an agent that answers with something else than HTTP', () => {
  const problems: [string, number, string][] = [
    ['continue without end', 502, 'agent_failed'],
    ['early hints without end', 502, 'agent_failed'],
    ['a header without end', 502, 'agent_failed'],
    ['headers without end', 502, 'agent_failed'],
    ['a drip of headers', 504, 'reply_timeout'],
    ['silence', 504, 'reply_timeout'],
    ['a reset', 502, 'agent_failed'],
    ['an end before the answer', 502, 'agent_failed'],
    ['garbage', 502, 'agent_failed'],
    ['another protocol', 502, 'agent_failed'],
    ['two lengths', 502, 'agent_failed'],
    ['a length and chunks', 502, 'agent_failed'],
  ];
  it.each(problems)('leaves its caller a problem: %s', async (name, status, code) => {
    if (status === 504) talk.server.config.replyTimeoutSeconds = 2;
    const answer = await get(`/${encodeURIComponent(name)}`);
    expect(answer).toMatchObject({ status, json: { code } });
  });

  it.each(['an end within the answer'])('shows its caller that the answer is incomplete: %s', async (name) => {
    await expect(send(`/${encodeURIComponent(name)}`, {}).then(textOf)).rejects.toThrow('aborted');
  });

  it('that can’t be reached is a problem', async () => {
    jest.spyOn(talk.runtime.inner, 'address').mockImplementation(() => Promise.resolve({ host: '127.0.0.1', port: 9 }));
    await untilTrue(async () => {
      agentConnectionPool.closeIdle();
      return (await get('/')).status === 502;
    });
    expect(await get('/')).toMatchObject({ status: 502, json: { code: 'agent_failed' } });
  });
});
