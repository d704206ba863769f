import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import { Config } from '../../src/kernel/config/config.ts';
import { MessageDelivery } from '../../src/features/messages/delivery/message-delivery.service.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { RuntimeUnavailable } from '../../src/runtime/runtime.errors.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

let talk: ChatFixture;

beforeAll(async () => void (talk = await startChatFixture({ MOORING_REPLY_TIMEOUT: '2' })));
afterAll(() => talk?.server.close());
afterEach(() => jest.restoreAllMocks());

const heardOf = async (text: string) => (await talk.receivedMessages()).filter(([, heard]) => heard === text).length;
const isHeard = (text: string) => until(`${text} is heard`, async () => ((await heardOf(text)) > 0 ? true : undefined));
const headOf = async () => (await talk.server.app.get(Database, { strict: false }).query('select max(position) from es_event'))[0];

describe('a chat while the container engine is away', () => {
  it('is refused at once, writes nothing, and is not delivered later', async () => {
    const { conversation_id } = (await talk.chat('before the outage')).json;
    const before = await headOf();
    const away = jest.spyOn(talk.runtime.inner, 'available').mockResolvedValue(false);
    const refused = await talk.chat('in the outage', conversation_id);
    expect(refused).toMatchObject({ status: 503, json: { code: 'runtime_unavailable' } });
    expect(refused.headers.get('retry-after')).not.toBeNull();
    expect(await headOf()).toEqual(before);
    away.mockRestore();
    expect(await talk.chat('after the outage', conversation_id)).toMatchObject({ status: 200 });
    expect(await heardOf('in the outage')).toBe(0);
    expect((await talk.thread(conversation_id)).map(({ text }) => text)).not.toContain('in the outage');
  });

  it('that went away during the chat is called again, and the caller gets the outcome', async () => {
    const address = jest.spyOn(talk.runtime.inner, 'address');
    agentConnectionPool.closeIdle();
    address.mockRejectedValueOnce(new RuntimeUnavailable(new Error('away')));
    expect(await talk.chat('in a short outage')).toMatchObject({ status: 200 });
    // Three retries take 6.25 s, and a caller here waits for at most 7 s.
    agentConnectionPool.closeIdle();
    address.mockRejectedValue(new RuntimeUnavailable(new Error('away')));
    const refused = await talk.chat('in a long outage');
    expect([refused.status, refused.json.code].join(' ')).toMatch(/^(503 runtime_unavailable|504 reply_timeout)$/);
    address.mockRestore();
    expect(await heardOf('in a long outage')).toBe(0);
  });
});

describe('a message whose sender got a timeout', () => {
  it('is not delivered to the agent afterwards', async () => {
    const { conversation_id } = (await talk.chat('hello')).json;
    const find = talk.runtime.inner.address.bind(talk.runtime.inner);
    let goOn = () => {};
    const slowEngine = new Promise<void>((resolve) => (goOn = resolve));
    jest.spyOn(talk.runtime.inner, 'address').mockImplementationOnce(async (...asked) => {
      await slowEngine;
      return find(...asked);
    });
    agentConnectionPool.closeIdle();
    const refused = await talk.chat('too late', conversation_id);
    expect(refused).toMatchObject({ status: 504, json: { code: 'reply_timeout', message_id: expect.any(String) } });
    goOn();
    expect(await talk.chat('in time', conversation_id)).toMatchObject({ status: 200 });
    expect(await heardOf('too late')).toBe(0);
    const thread = await talk.thread(conversation_id);
    expect(thread.find(({ text }) => text === 'too late')).toMatchObject({ id: refused.json.message_id, status: 'dead_letter' });
  });

  it('is marked as ended in the thread too when its sender gets the timeout', async () => {
    const { conversation_id } = (await talk.chat('hello')).json;
    const answers = await Promise.all(['hang 1', 'hang 2', 'hang 3', 'hang 4'].map((text) => talk.chat(text, conversation_id)));
    expect(answers.map(({ status }) => status)).toEqual([504, 504, 504, 504]);
    expect((await talk.thread(conversation_id)).slice(2).map(({ status }) => status)).toEqual(Array(4).fill('dead_letter'));
  });
});

describe('a chat with an Idempotency-Key', () => {
  it('answers a repeat as it did the first time, and is delivered once', async () => {
    const first = await talk.chatOnce('once', 'say it once');
    const again = await talk.chatOnce('once', 'say it once');
    expect(first.status).toBe(200);
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expect(again).toMatchObject({ status: 200, json: first.json });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await heardOf('say it once')).toBe(1);
    expect(await talk.chatOnce('once', 'say something else')).toMatchObject({ status: 422, json: { code: 'idempotency_key_reused' } });
  });

  it('is refused while the first is still running', async () => {
    const first = talk.chatOnce('running', 'hang while running');
    await isHeard('hang while running');
    expect(await talk.chatOnce('running', 'hang while running')).toMatchObject({ status: 409, json: { code: 'idempotency_in_progress' } });
    expect((await first).status).toBe(504);
    expect(await heardOf('hang while running')).toBe(1);
  });

  it('that timed out gets the same response again, and is not delivered again', async () => {
    const first = await talk.chatOnce('late', 'hang for long');
    expect(first.status).toBe(504);
    expect(await talk.chatOnce('late', 'hang for long')).toMatchObject({ status: 504, json: { message_id: first.json.message_id } });
    expect(await heardOf('hang for long')).toBe(1);
  });

  it.each([
    ['a new thread', false],
    ['an older thread', true],
  ])('in %s is not delivered again if the service died after the delivery and before the answer', async (name, older) => {
    const conversation = older ? (await talk.chat('hello')).json.conversation_id : undefined;
    const [key, text] = [`died ${name}`.replaceAll(' ', '-'), `died once in ${name}`];
    const first = await talk.chatOnce(key, text, conversation);
    await talk.server.app
      .get(Database, { strict: false })
      .query(`update idempotency_keys set state = 'running', answer = null, claimed_at = now() - interval '1 minute' where state = 'done'`);
    const again = await talk.chatOnce(key, text, conversation);
    expect(again).toMatchObject({ status: 200, json: first.json });
    expect(again.headers.get('idempotency-replayed')).toBeNull();
    expect(await heardOf(text)).toBe(1);
  });

  it('keeps its reply no longer readable than the agent’s other messages', async () => {
    const agentId = await talk.deployed();
    expect(await talk.chatOnce('shredded', 'a secret', undefined, agentId)).toMatchObject({ status: 200 });
    const [kept] = await talk.server.app
      .get(Database, { strict: false })
      .query<{ answer: { ct: string } }>(`select answer from idempotency_keys where account_id = 'acme' order by created_at desc limit 1`);
    expect(Buffer.from(kept?.answer.ct ?? '', 'base64').toString('latin1')).not.toContain('a secret');
    expect((await talk.ask('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
    const gone = await talk.chatOnce('shredded', 'a secret', undefined, agentId);
    expect(gone).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
    expect(JSON.stringify(gone.json)).not.toContain('a secret');
  });
});

describe('a chat with an agent that has no route for messages', () => {
  it('is a 502 that names the request and proposes another protocol', async () => {
    const other = createServer((_, response) => void response.writeHead(404).end('Not Found')).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: '127.0.0.1', port });
    agentConnectionPool.closeIdle();
    try {
      const { status, json } = await talk.chat('hello');
      expect([status, json.code]).toEqual([502, 'agent_failed']);
      expect(json.detail).toMatch(
        new RegExp(`^POST /messages on port ${port} answered 404: Not Found\\. If the agent speaks another protocol, name it as protocol`),
      );
    } finally {
      agentConnectionPool.closeIdle();
      other.close();
    }
  });
});

describe('chats of one account', () => {
  it('are limited per minute: further ones are refused, and nothing is written', async () => {
    const config = talk.server.app.get(Config, { strict: false });
    const { chatsPerMinute } = config;
    try {
      config.chatsPerMinute = 1;
      await talk.chat('the last');
      const before = await headOf();
      const refused = await talk.chat('one too many');
      expect(refused).toMatchObject({ status: 429, json: { code: 'rate_limited' } });
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await headOf()).toEqual(before);
      expect(await heardOf('one too many')).toBe(0);
    } finally {
      config.chatsPerMinute = chatsPerMinute;
    }
    expect(await talk.chat('enough for all')).toMatchObject({ status: 200 });
  });
});

describe('conversations that wait for replies', () => {
  let config: Config;

  /** The conversations wait until their agent is deleted. */
  beforeEach(() => {
    config = talk.server.app.get(Config, { strict: false });
    config.replyTimeoutSeconds = 60;
  });
  afterEach(() => void (config.replyTimeoutSeconds = 2));

  async function hanging(count: number) {
    const agentId = await talk.deployed();
    const answers = Array.from({ length: count }, (_, index) => talk.chat(`hang ${index}`, undefined, agentId));
    const handedOver = () => talk.server.app.get(MessageDelivery, { strict: false }).stats();
    await until('as many are handed over as may be', async () => (handedOver().running >= 32 ? true : undefined));
    const end = async () => {
      expect((await talk.ask('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
      await Promise.all(answers);
    };
    return { handedOver, end };
  }

  it('do not delay a chat with another agent of the account', async () => {
    const { handedOver, end } = await hanging(80);
    expect(await talk.chat('and you?')).toMatchObject({ status: 200 });
    expect(handedOver().running).toBe(32);
    await end();
  });

  it('wait for their turn if the agent has as many as it may have', async () => {
    const { handedOver, end } = await hanging(40);
    await until('the others wait', async () => (handedOver().waiting === 8 ? true : undefined));
    expect(handedOver().running).toBe(32);
    await end();
  });
});
