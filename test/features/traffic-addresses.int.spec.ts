import { once } from 'node:events';
import { request as ask, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

import { PublicAgent } from '../support/public-agent.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { sendRaw } from '../support/sample-server.ts';

let talk: ChatFixture;
let agent: PublicAgent;

beforeAll(async () => {
  agent = await PublicAgent.start();
  talk = await startChatFixture({});
});
afterAll(async () => {
  await talk?.server.close();
  await agent?.stop();
});
beforeEach(async () => {
  jest.spyOn(talk.runtime.inner, 'address').mockImplementation(() => Promise.resolve(agent.address));
  await publish(true);
});
afterEach(() => jest.restoreAllMocks());

const pathOf = (rest = '/') => `/a/${talk.agentId}${rest}`;
const publish = (isPublic: boolean) => talk.ask('PATCH', `/api/v1/agents/${talk.agentId}`, { public: isPublic });

async function openStream(): Promise<IncomingMessage> {
  const [response] = (await once(ask(`${talk.server.url}${pathOf('/events')}`).end(), 'response')) as [IncomingMessage];
  return response.on('error', () => undefined);
}

/** Opens a connection whose handshake the agent takes without looking at it. Returns both ends. */
async function openSocket(): Promise<{ socket: Socket; theirs: Socket }> {
  const headers = { connection: 'Upgrade', upgrade: 'websocket' };
  const [, socket] = (await once(ask(`${talk.server.url}${pathOf('/raw')}`, { headers }).end(), 'upgrade')) as [IncomingMessage, Socket];
  return { socket: socket.on('error', () => undefined), theirs: agent.upgraded.at(-1) as Socket };
}

describe('a request to a public agent', () => {
  it.each(['', '?y'])('without the slash behind the agent’s id is redirected to the one with it, with any method: %s', async (query) => {
    const before = agent.seen.length;
    for (const method of ['GET', 'POST', 'PURGE']) {
      const answer = await fetch(`${talk.server.url}${pathOf(query)}`, { method, redirect: 'manual' });
      expect([answer.status, answer.headers.get('location')]).toEqual([308, pathOf(`/${query}`)]);
    }
    expect(agent.seen.length).toBe(before);
  });

  it.each([
    ['an id that is spelled otherwise', () => `/a/%30${talk.agentId.slice(1).toUpperCase()}/x?y`],
    ['a prefix that is spelled otherwise', () => `/%61/${talk.agentId}/x?y`],
  ])('is redirected to the one spelling of the agent’s path, and not passed on: %s', async (_, path) => {
    const before = agent.seen.length;
    const answer = await fetch(`${talk.server.url}${path()}`, { method: 'POST', redirect: 'manual', body: 'x' });
    expect([answer.status, answer.headers.get('location')]).toEqual([308, pathOf('/x?y')]);
    expect(agent.seen.length).toBe(before);
  });

  it.each([
    ['two hosts', '/', 'host: a\r\nhost: b'],
    ['a host that is no name', '/', 'host: a.test:80x'],
    ['a host that its address contradicts', 'http://other.test/', 'host: a.test'],
  ])('may not name %s', async (_, before, host) => {
    const answer = await sendRaw(talk.server.url, `GET ${before}${pathOf().slice(1)} HTTP/1.1\r\n${host}\r\nconnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"invalid_request"');
  });
});

describe('what is open when an agent is closed to the public', () => {
  it('is broken off at once: a stream and a WebSocket', async () => {
    const stream = await openStream();
    const { socket, theirs } = await openSocket();
    const ends = Promise.all([
      new Promise((resolve) => stream.once('close', resolve)),
      new Promise((resolve) => socket.once('close', resolve)),
      new Promise((resolve) => theirs.once('end', resolve)),
    ]);
    stream.resume();
    theirs.resume();
    await publish(false);
    await ends;
  });

  it('stays open if another setting changes', async () => {
    const stream = await openStream();
    await talk.ask('PATCH', `/api/v1/agents/${talk.agentId}`, { description: 'x' });
    agent.held.get('/events')?.write('data: on\n\n');
    for await (const bytes of stream) if (String(bytes).includes('data: on')) break;
  });
});
