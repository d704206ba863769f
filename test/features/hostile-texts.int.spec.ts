import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { webhookConversation } from '../../src/features/messages/index.ts';
import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import type { ProtocolName } from '../../src/agent-protocol/protocol-names.ts';
import { Templates } from '../../src/features/templates/index.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

/** Texts of agents that PostgreSQL can't store: NUL, halves of characters, and bytes that are no UTF-8. */

/** JSON of a text with NUL and both halves of a character, each alone. */
const ESCAPED = String.raw`"a\u0000b\ud800c\udc00d\ud83d\ude00"`;
const READ = 'a\uFFFDb\uFFFDc\uFFFDd😀';
/** The bytes of a NUL, of half a character and of a byte that is never in UTF-8. */
const RAW = Buffer.from([0, 0xed, 0xa0, 0x80, 0xff]);

interface Answer {
  status: number;
  type?: string;
  body: string | Buffer;
}

/** The answers of the agent by the text of the message. */
const answers: Record<string, Answer> = {
  escaped: { status: 200, body: `{"response":${ESCAPED}}` },
  'no UTF-8': { status: 200, body: Buffer.concat([Buffer.from('{"response":"'), RAW.subarray(1), Buffer.from('"}')]) },
  'raw NUL': { status: 200, body: Buffer.concat([Buffer.from('{"response":"'), RAW, Buffer.from('"}')]) },
  'an error': { status: 400, body: `{"error":${ESCAPED}}` },
  'a raw error': { status: 400, body: RAW },
  'an error that may pass': { status: 503, body: RAW },
  completion: { status: 200, body: `{"choices":[{"message":{"content":${ESCAPED}}}]}` },
  chunks: {
    status: 200,
    type: 'text/event-stream',
    // The halves of the last character come apart.
    body: [String.raw`"a\u0000b\ud800c"`, String.raw`"\udc00d\ud83d"`, String.raw`"\ude00"`, '""']
      .map((content) => `data: {"choices":[{"delta":{"content":${content}}}]}\n\n`)
      .concat('data: [DONE]\n\n')
      .join(''),
  },
  'chunks with raw NUL': { status: 200, type: 'text/event-stream', body: Buffer.concat([Buffer.from('data: '), RAW, Buffer.from('\n\n')]) },
};

const agent = createServer((request, response) => void answer(request, response));
/** The texts of the messages that reached the agent. */
const heard: string[] = [];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { text, payload, messages } = JSON.parse(Buffer.concat(chunks).toString() || '{}');
  const asked: string = text || payload || (messages?.at(-1)?.content ?? '');
  heard.push(asked);
  const { status, type = 'application/json', body } = answers[asked] ?? { status: 200, body: '{"response":"well"}' };
  response.writeHead(status, { 'content-type': type }).end(body);
}

let talk: ChatFixture;
let hello: NonNullable<ReturnType<Templates['get']>>;

beforeAll(async () => {
  talk = await startChatFixture({});
  hello = talk.server.app.get(Templates, { strict: false }).get('hello') as typeof hello;
  agent.listen(0, '127.0.0.1');
  await once(agent, 'listening');
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  await talk?.server.close();
  agent.closeAllConnections();
  agent.close();
});

/** Lets the agent be the server above, in that protocol. */
function speaks(name: ProtocolName): void {
  jest.spyOn(talk.server.app.get(Templates, { strict: false }), 'get').mockReturnValue({ ...hello, protocol: { name } });
  const { port } = agent.address() as AddressInfo;
  jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: '127.0.0.1', port });
  agentConnectionPool.closeIdle();
  heard.length = 0;
}

const post = (path: string, json: object, headers: Record<string, string> = {}) =>
  talk.server.request('POST', `/api/agents/${talk.agentId}/${path}`, { credential: 'mk_acme', json, headers });
const eventsIn = (text: string) =>
  [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, event, data]) => ({ event, data: JSON.parse(data ?? '') }));

describe('a reply that PostgreSQL can’t store', () => {
  it.each([
    ['mooring', 'escaped', READ],
    ['mooring', 'no UTF-8', expect.stringMatching(/^\uFFFD+$/)],
    ['openai', 'completion', READ],
  ] as const)('is given with U+FFFD, and stands in the thread (%s, %s)', async (protocol, text, response) => {
    speaks(protocol);
    const reply = await talk.chat(text);
    expect(reply).toMatchObject({ status: 200, json: { response } });
    expect(await talk.thread(reply.json.conversation_id)).toMatchObject([{ text }, { text: reply.json.response, status: 'delivered' }]);
    expect(heard).toEqual([text]);
  });

  it('is streamed as it is stored', async () => {
    speaks('openai');
    const events = eventsIn((await post('chat', { message: 'chunks' }, { accept: 'text/event-stream' })).text);
    const deltas = events.filter(({ event }) => event === 'delta').map(({ data }) => data.text as string);
    expect([deltas.join(''), events.at(-1)?.event, events.at(-1)?.data.response]).toEqual([READ, 'reply', READ]);
    expect((await talk.thread(events[0]?.data.conversation_id)).at(-1)).toMatchObject({ text: READ });
  });

  it.each([
    ['mooring', 'raw NUL'],
    ['mooring', 'an error'],
    ['mooring', 'a raw error'],
    ['openai', 'chunks with raw NUL'],
  ] as const)('ends the chat with agent_failed if it is no reply (%s, %s)', async (protocol, text) => {
    speaks(protocol);
    const failed = await talk.chat(text);
    expect(failed).toMatchObject({ status: 502, json: { code: 'agent_failed', detail: expect.not.stringMatching(/\0|\p{Surrogate}/u) } });
    expect(heard).toEqual([text]);
    const streamed = eventsIn((await post('chat', { message: text }, { accept: 'text/event-stream' })).text);
    expect(streamed.at(-1)).toMatchObject({ event: 'error', data: { status: 502, code: 'agent_failed' } });
  });

  it.each([
    ['escaped', { status: 'delivered', message: null }],
    ['no UTF-8', { status: 'delivered', message: null }],
    ['raw NUL', { status: 'dead_letter', message: expect.stringContaining('no JSON') }],
    ['a raw error', { status: 'dead_letter', message: expect.stringContaining('400') }],
    ['an error that may pass', { status: 'pending', message: expect.stringContaining('503') }],
  ])('to a webhook ends its delivery or its attempt (%s)', async (text, delivery) => {
    const agentId = await talk.deployed();
    speaks('mooring');
    const path = `/api/webhooks/${agentId}`;
    const { token } = (await talk.ask('GET', `${path}/token`)).json;
    const { json } = await talk.server.request('POST', path, { body: text, headers: { 'x-service-webhook-token': token } });
    const found = await until('the attempt is over', async () => {
      const [listed] = (await talk.ask('GET', `/api/agents/${agentId}/deliveries`)).json;
      return listed !== undefined && (listed.status !== 'pending' || listed.attempts > 0) ? listed : undefined;
    });
    expect(found).toMatchObject(delivery);
    expect(heard).toEqual([text]);
    const types = (await talk.events(webhookConversation(agentId))).map(({ type }) => type);
    expect(types.filter((type) => type !== 'ConversationStarted')).toHaveLength(2);
    expect(json.message_id).toEqual(expect.any(String));
  });
});

describe('output of a command that PostgreSQL can’t store', () => {
  const command = String.raw`printf 'a\000b\355\240\200c\377'; printf '\000\377' >&2`;

  it('is returned with U+FFFD for invalid UTF-8, also to a repeat with an Idempotency-Key', async () => {
    const first = await post('exec', { command }, { 'idempotency-key': 'no-text' });
    expect(first).toMatchObject({
      status: 200,
      json: { exitCode: 0, stdout: expect.stringMatching(/^a\0b\uFFFD+c\uFFFD$/), stderr: '\0\uFFFD' },
    });
    expect((await post('exec', { command }, { 'idempotency-key': 'no-text' })).json).toEqual(first.json);
  });

  it('is streamed byte by byte', async () => {
    const events = eventsIn((await post('exec', { command }, { accept: 'text/event-stream' })).text);
    const bytesOf = (wanted: string) =>
      Buffer.concat(
        events
          .filter(({ event }) => event === wanted)
          .map(({ data: { text, base64 } }) => Buffer.from(text ?? base64, text ? 'utf8' : 'base64')),
      );
    expect(bytesOf('stdout')).toEqual(Buffer.concat([Buffer.from('a\0b'), RAW.subarray(1, 4), Buffer.from('c'), RAW.subarray(4)]));
    expect(bytesOf('stderr')).toEqual(Buffer.from([0, 0xff]));
    expect(events.at(-1)).toMatchObject({ event: 'exit', data: { exitCode: 0 } });
  });
});

describe('names of files that are no UTF-8', () => {
  it('are listed with U+FFFD, and the files beside them can be used', async () => {
    const command = String.raw`mkdir -p "$MOORING_VOLUME/odd"; cd "$MOORING_VOLUME/odd"; touch "$(printf 'a\377b')" "$(printf '\355\240\200')"; echo x > fine`;
    expect((await talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command })).json).toMatchObject({ exitCode: 0, stderr: '' });
    const { status, json } = await talk.ask('GET', `/api/agents/${talk.agentId}/files/list?path=odd`);
    expect([status, json.truncated]).toEqual([200, false]);
    expect(json.entries.map(({ name }: { name: string }) => name)).toEqual(['a\uFFFDb', 'fine', expect.stringMatching(/^\uFFFD+$/)]);
  });
});
