import { randomUUID } from 'node:crypto';

import { Module, type DynamicModule } from '@nestjs/common';

import { Config } from '../../src/kernel/config/config.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import { FaultyRuntime } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { operate } from '../support/log.ts';
import { startChatFixture, ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

const REPLY_TIMEOUT_SECONDS = 2;
const environment = { MOORING_REPLY_TIMEOUT: String(REPLY_TIMEOUT_SECONDS) };

describe('talking to an agent', () => {
  let talk: ChatFixture;

  beforeAll(async () => void (talk = await startChatFixture(environment)));

  afterAll(() => talk?.server.close());

  it('begins a thread and continues it', async () => {
    const first = await talk.chat('hello');
    expect(first).toMatchObject({ status: 200, json: { response: 'heard: hello' } });
    const { conversation_id, message_id } = first.json;
    const second = await talk.chat('and again', conversation_id.toUpperCase());
    expect(second).toMatchObject({ status: 200, json: { response: 'heard: and again', conversation_id } });
    expect(second.headers.get('x-agent-woken')).toBeNull();
    expect(await talk.thread(conversation_id)).toMatchObject([
      { id: message_id, role: 'user', text: 'hello', status: 'delivered' },
      { id: message_id, role: 'agent', text: 'heard: hello', status: 'delivered' },
      { id: second.json.message_id, role: 'user', text: 'and again', status: 'delivered' },
      { id: second.json.message_id, role: 'agent', text: 'heard: and again', status: 'delivered' },
    ]);
  });

  it('in an unknown thread, or in another account’s, is refused and wakes no agent', async () => {
    const sleeper = await talk.deployed();
    const { json: elsewhere } = await talk.chat('hello');
    await talk.ask('POST', `/api/agents/${sleeper}/sleep`);
    const before = await talk.fixture.types(sleeper);
    const notFound = { status: 404, json: { code: 'conversation_not_found' } };
    expect(await talk.chat('hello', randomUUID(), sleeper)).toMatchObject(notFound);
    expect(await talk.chat('hello', elsewhere.conversation_id, sleeper)).toMatchObject(notFound);
    expect(await talk.fixture.types(sleeper)).toEqual(before);
    const path = `/api/agents/${sleeper}/conversations`;
    expect(await talk.ask('GET', `${path}/${elsewhere.conversation_id}/messages`)).toMatchObject(notFound);
    expect(await talk.ask('GET', `${path}/nonsense/messages`)).toMatchObject(notFound);
    const malformed = { status: 400, json: { code: 'invalid_request', errors: [{ field: 'conversation_id' }] } };
    expect(await talk.chat('hello', 'nonsense')).toMatchObject(malformed);
  });

  it('is allowed only to the agent’s own account', async () => {
    const { json } = await talk.chat('hello');
    const notFound = { status: 404, json: { code: 'agent_not_found' } };
    for (const agentId of [talk.agentId, randomUUID()]) {
      const path = `/api/agents/${agentId}`;
      expect(await talk.ask('POST', `${path}/chat`, { message: 'hello' }, 'mk_other')).toMatchObject(notFound);
      const known = { message: 'hello', conversation_id: json.conversation_id };
      expect(await talk.ask('POST', `${path}/chat`, known, 'mk_other')).toMatchObject(notFound);
      expect(await talk.ask('GET', `${path}/conversations`, undefined, 'mk_other')).toMatchObject(notFound);
      const thread = `${path}/conversations/${json.conversation_id}/messages`;
      expect(await talk.ask('GET', thread, undefined, 'mk_other')).toMatchObject(notFound);
    }
    expect(await talk.ask('GET', `/api/agents/${randomUUID()}/conversations`)).toMatchObject(notFound);
  });

  it.each([
    ['no text', ''],
    ['200 001 characters', 'x'.repeat(200_001)],
    ['200 000 characters of four bytes', '\u{1F6A2}'.repeat(200_000)],
    ['a number', 7],
    ['nothing', undefined],
  ])('with %s is refused', async (_, message) => {
    const errors = expect.arrayContaining([expect.objectContaining({ field: 'message' })]);
    const refused = { status: 400, json: { code: 'invalid_request', errors } };
    expect(await talk.ask('POST', `/api/agents/${talk.agentId}/chat`, { message })).toMatchObject(refused);
  });

  it('accepts 200 000 characters, and text of every kind', async () => {
    expect((await talk.chat('x'.repeat(200_000))).json.response).toHaveLength(200_007);
    expect((await talk.chat('\u{1F6A2} \u0007 "\\ é')).json).toMatchObject({ response: 'heard: \u{1F6A2} \u0007 "\\ é' });
  });

  it('keeps the order within a conversation, whoever the senders are', async () => {
    const { json } = await talk.chat('first of many');
    // All are answered, however slow the machine is.
    talk.server.config.replyTimeoutSeconds = 60;
    const answers = await Promise.all(Array.from({ length: 30 }, (_, index) => talk.chat(`many ${index}`, json.conversation_id)));
    talk.server.config.replyTimeoutSeconds = REPLY_TIMEOUT_SECONDS;
    answers.forEach(({ json: answer }, index) => expect(answer).toMatchObject({ response: `heard: many ${index}` }));
    const accepted = (await talk.events(json.conversation_id)).filter(({ type }) => type === 'MessageAccepted');
    const heard = (await talk.receivedMessages()).filter(([, text]) => text.startsWith('many ')).map(([id]) => id);
    expect(heard).toEqual(accepted.slice(1).map(({ data }) => data.message_id));
  });

  it('in one conversation does not delay another', async () => {
    const slow = talk.chat('hang please');
    await until('the slow one is heard', async () =>
      (await talk.receivedMessages()).some(([, text]) => text === 'hang please') ? true : undefined,
    );
    let slowIsOver = false;
    void slow.then(() => (slowIsOver = true));
    expect(await talk.chat('quickly')).toMatchObject({ status: 200 });
    expect(slowIsOver).toBe(false);
    expect(await slow).toMatchObject({ status: 504 });
  });

  it('returns the agent’s own error, and keeps the message as a dead letter', async () => {
    const { json } = await talk.chat('hello');
    const failed = await talk.chat('fail now', json.conversation_id);
    expect(failed).toMatchObject({ status: 502, json: { code: 'agent_failed', message_id: expect.any(String) } });
    const thread = await talk.thread(json.conversation_id);
    expect(thread.at(-1)).toMatchObject({ id: failed.json.message_id, role: 'user', text: 'fail now', status: 'dead_letter' });
    expect(await talk.chat('well?', json.conversation_id)).toMatchObject({ status: 200 });
  });

  it('ends after the reply timeout if no reply comes, and the message is kept', async () => {
    const { json } = await talk.chat('hello');
    const late = await talk.chat('hang on', json.conversation_id);
    expect(late).toMatchObject({ status: 504, json: { code: 'reply_timeout', message_id: expect.any(String) } });
    const status = 'dead_letter';
    expect((await talk.thread(json.conversation_id)).at(-1)).toMatchObject({ id: late.json.message_id, text: 'hang on', status });
  });

  it('is not delivered again to an agent that died in the middle of its answer, because it may have acted on it', async () => {
    const answer = await talk.chat('die once');
    expect(answer).toMatchObject({ status: 502, json: { code: 'agent_failed' } });
    const all = await until('the agent runs again', () => talk.receivedMessages().catch(() => undefined));
    const heard = all.filter(([, text]) => text === 'die once');
    expect(heard).toEqual([[answer.json.message_id, 'die once']]);
  });

  it('wakes a sleeping agent, and records it', async () => {
    await talk.ask('POST', `/api/agents/${talk.agentId}/sleep`);
    const answer = await talk.chat('awake?');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-agent-woken')).toBe('true');
  });

  it('is refused if a hundred messages of the conversation wait', async () => {
    const { json } = await talk.chat('hello');
    // The first message has to wait until all others have come, however slow the machine is.
    talk.server.config.replyTimeoutSeconds = 10;
    const hanging = talk.chat('hang', json.conversation_id);
    await until('it is accepted', async () => ((await talk.events(json.conversation_id)).length > 3 ? true : undefined));
    const answers = await Promise.all(Array.from({ length: 103 }, (_, index) => talk.chat(`wait ${index}`, json.conversation_id)));
    const refusals = answers.filter(({ status }) => status === 429).length;
    expect(refusals).toBeGreaterThanOrEqual(1);
    expect(refusals).toBeLessThanOrEqual(4);
    // On a slow machine the last messages are not answered in time.
    const codes = new Set(answers.map(({ status }) => status));
    expect([...codes].filter((status) => ![200, 429, 504].includes(status))).toEqual([]);
    const ends = async () =>
      (await talk.events(json.conversation_id)).filter(({ type }) => /^Message(Delivered|DeadLettered)$/.test(type)).length;
    await until('each has its end', async () => ((await ends()) === 2 + 103 - refusals ? true : undefined));
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.json).toMatchObject({ code: 'rate_limited' });
    expect(refused?.headers.get('retry-after')).toBe('5');
    expect((await hanging).status).toBe(504);
    talk.server.config.replyTimeoutSeconds = REPLY_TIMEOUT_SECONDS;
  });

  it('leaves neither text nor reply readable in any table', async () => {
    await talk.chat('canary-of-a-message');
    const tables = await operate(
      talk.server.databaseUrl,
      `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
    );
    expect(tables.length).toBeGreaterThan(5);
    for (const { name } of tables) {
      const found = await operate(
        talk.server.databaseUrl,
        `select 1 from ${String(name)} t where t::text like '%canary-of-a%' or convert_from(decode(replace(t::text, '\\', ''), 'escape'), 'LATIN1') like '%canary-of-a%'`,
      );
      expect([name, found.length]).toEqual([name, 0]);
    }
    expect(talk.server.logLines.filter((line) => line.includes('canary-of-a'))).toEqual([]);
  });

  it('shows the conversations, those with the latest message first, in pages', async () => {
    const agentId = await talk.deployed();
    const begun: string[] = [];
    for (let count = 0; count < 5; count++) begun.push((await talk.chat(`thread ${count}`, undefined, agentId)).json.conversation_id);
    const latest = begun[1] as string;
    const settled = await talk.chat('once more', latest, agentId);
    expect(settled.status).toBe(200);
    const expected = [latest, begun[4], begun[3], begun[2], begun[0]];
    const pages: string[][] = [];
    let path: string | undefined = `/api/agents/${agentId}/conversations?limit=2`;
    await until('the list is up to date', async () => {
      const [top] = (await talk.ask('GET', `/api/agents/${agentId}/conversations`)).json;
      return top.id === latest && top.messages === 2 ? true : undefined;
    });
    while (path !== undefined) {
      const page = await talk.ask('GET', path);
      pages.push(page.json.map(({ id }: { id: string }) => id));
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(pages).toEqual([expected.slice(0, 2), expected.slice(2, 4), expected.slice(4)]);
    const view = { channel: 'chat', messages: 2, createdAt: expect.any(String), updatedAt: expect.any(String) };
    expect((await talk.ask('GET', `/api/agents/${agentId}/conversations`)).json[0]).toMatchObject(view);
    expect(await talk.ask('GET', `/api/agents/${agentId}/conversations?cursor=x`)).toMatchObject({ status: 400 });
  });

  it('ends with the agent: its conversations are deleted, and waiting messages end', async () => {
    const agentId = await talk.deployed();
    const { json } = await talk.chat('hello', undefined, agentId);
    const waiting = talk.chat('hang', json.conversation_id, agentId);
    await until('it is accepted', async () => ((await talk.events(json.conversation_id)).length > 3 ? true : undefined));
    expect((await talk.ask('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
    const notFound = { status: 404, json: { code: 'agent_not_found' } };
    expect(await talk.chat('hello', undefined, agentId)).toMatchObject(notFound);
    expect(await talk.chat('hello', json.conversation_id, agentId)).toMatchObject(notFound);
    expect(await talk.ask('GET', `/api/agents/${agentId}/conversations`)).toMatchObject(notFound);
    expect(await talk.ask('GET', `/api/agents/${agentId}/conversations/${json.conversation_id}/messages`)).toMatchObject(notFound);
    expect((await waiting).status).toBeGreaterThanOrEqual(400);
    const last = await until('it is given up', async () => {
      const event = (await talk.events(json.conversation_id)).at(-1);
      return event?.type === 'MessageDeadLettered' ? event : undefined;
    });
    // The agent either had the message or was gone before that.
    expect(last.data.code).toMatch(/^agent_(failed|unavailable)$/);
  });
});

@Module({})
class KeptRuntimeModule {}

/** Makes a module whose agents keep running when the application stops. */
function keptRuntime(opened: (runtime: FaultyRuntime) => void): DynamicModule {
  const open = async ({ dataDir }: Config) => {
    const faulty = await FaultyRuntime.open(dataDir);
    opened(faulty);
    return faulty.runtime;
  };
  const providers = [{ provide: ContainerRuntime, inject: [Config], useFactory: open }];
  return { module: KeptRuntimeModule, global: true, providers, exports: [ContainerRuntime] };
}

describe('a service that stops between accepting and delivering', () => {
  it('delivers after its next start', async () => {
    const runtimes: FaultyRuntime[] = [];
    const features = runningFeatures(keptRuntime((opened) => runtimes.push(opened)));
    const first = await startFeatureServer({ ...features, environment: { MOORING_REPLY_TIMEOUT: '60' } });
    try {
      const before = new ChatFixture(first, runtimes[0] as FaultyRuntime);
      await before.fixture.account('acme', 5);
      const agentId = (before.agentId = await before.deployed());
      const { conversation_id } = (await before.chat('hello')).json;
      const answer = before.chat('hang-once', conversation_id).catch(() => null);
      await until('it is being delivered', async () => ((await before.receivedMessages()).length === 2 ? true : undefined));
      await first.app.close();
      await answer;
      const kept = { MOORING_DATA_DIR: first.config.dataDir, DATABASE_URL: first.databaseUrl };
      const second = await startFeatureServer({ ...features, environment: kept });
      try {
        const after = new ChatFixture(second, runtimes[1] as FaultyRuntime);
        after.agentId = agentId;
        const thread = await until('the reply is there', async () => {
          const messages = await after.thread(conversation_id);
          return messages.length === 4 ? messages : undefined;
        });
        expect(thread.at(-1)).toMatchObject({ role: 'agent', text: 'heard: hang-once' });
        const heard = (await after.receivedMessages()).filter(([, text]) => text === 'hang-once');
        expect(heard.map(([id]) => id)).toEqual([thread[2]?.id, thread[2]?.id]);
      } finally {
        await second.close();
      }
    } finally {
      for (const runtime of runtimes) await runtime.clear();
      await first.close();
    }
  });
});
