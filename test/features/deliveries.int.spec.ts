import { randomBytes } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { v7 as uuidv7 } from 'uuid';

import { MessageIntake } from '../../src/features/messages/services.ts';
import { webhookConversation } from '../../src/features/messages/index.ts';
import { raceAbort } from '../../src/kernel/async/race-abort.ts';
import { Clock } from '../../src/kernel/clock.ts';
import { systemContext } from '../../src/kernel/context/command-context.ts';
import { SAGA_STEP_CHANNEL, Sagas, type SagaStep } from '../../src/eventsourcing/sagas/saga.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until, untilTrue } from '../support/until.ts';

let talk: ChatFixture;
let agentId: string;
let number = 0;

beforeAll(async () => void (talk = await startChatFixture({ MOORING_REPLY_TIMEOUT: '2' })));
beforeEach(async () => void (agentId = await talk.deployed()));
afterEach(() => jest.restoreAllMocks());
afterAll(() => talk?.server.close());

const intake = () => talk.server.app.get(MessageIntake, { strict: false });
const posted = () => ({ context: systemContext('test', 'acme'), accountId: 'acme', agentId, messageId: uuidv7(), isRepeatable: false });

/** Posts a webhook of a caller of its own, and returns the id of the message. */
/** The address that the sender called. */
const URL = 'https://mooring.example/api/webhooks/1?a=b';

async function webhook(body: string | Buffer, headers: Record<string, string> = {}): Promise<string> {
  number += 1;
  const content = { channel: 'webhook' as const, body: Buffer.from(body), contentType: 'text/plain', headers, url: URL };
  const message = { ...posted(), caller: `caller ${number}`, hasToken: true, content };
  await intake().webhook(message);
  return message.messageId;
}

const events = () => talk.events(webhookConversation(agentId));
const types = async () => (await events()).map(({ type }) => type);
const ended = (count: number) =>
  until(`${count} deliveries have ended`, async () => {
    const over = (await types()).filter((type) => type === 'MessageDelivered' || type === 'MessageDeadLettered');
    return over.length === count ? true : undefined;
  });

/** Sets the service's clock forward to the next attempt. */
function toNextAttempt(retryAt: string): void {
  const ms = Date.parse(retryAt) - Date.now();
  jest.spyOn(talk.server.app.get(Clock, { strict: false }), 'now').mockImplementation(() => new Date(Date.now() + ms));
  talk.server.app.get(Sagas, { strict: false }).wake('messages', webhookConversation(agentId));
}

describe('a webhook', () => {
  it('reaches the agent in order, with its body, its type and its headers, and the reply is in the thread', async () => {
    const ids = [await webhook('{"n": 1}\n', { 'x-github-event': 'push' }), await webhook('two'), await webhook('three')];
    await ended(3);
    const heard = await talk.messages(agentId);
    expect(heard.map(({ id }) => id)).toEqual(ids);
    expect(heard[0]).toEqual({
      id: ids[0],
      channel: 'webhook',
      conversation_id: webhookConversation(agentId),
      text: '',
      payload: '{"n": 1}\n',
      content_type: 'text/plain',
      headers: { 'x-github-event': 'push' },
      url: URL,
      attachments: [],
    });
    const [page] = await talk.pages(webhookConversation(agentId), '', agentId);
    expect(page?.filter(({ role }) => role === 'user')).toMatchObject([
      { text: '{"n": 1}\n', status: 'delivered' },
      { text: 'two', status: 'delivered' },
      { text: 'three', status: 'delivered' },
    ]);
    expect(page?.filter(({ role }) => role === 'agent').map(({ text }) => text)).toEqual([
      'heard: {"n": 1}\n',
      'heard: two',
      'heard: three',
    ]);
  });

  it.each([
    ['text', Buffer.alloc(1_048_576, 'Ahoj €. ')],
    ['bytes', randomBytes(1_048_576)],
  ])('with a megabyte of %s arrives byte by byte', async (_, body) => {
    await webhook(body);
    await ended(1);
    const [{ payload } = { payload: '' }] = await talk.messages(agentId);
    const arrived = typeof payload === 'string' ? Buffer.from(payload) : Buffer.from((payload as { base64: string }).base64, 'base64');
    expect(Buffer.compare(arrived, body)).toBe(0);
  });

  it('wakes the agent', async () => {
    expect((await talk.ask('POST', `/api/agents/${agentId}/sleep`)).json.status).toBe('sleeping');
    await webhook('wake up');
    await ended(1);
    expect(await talk.fixture.types(agentId)).toContain('AgentWoke');
  });

  it('that the agent answers with 500 is tried six times, and delays the next one until it fails', async () => {
    const failing = await webhook('fail');
    const next = await webhook('next');
    for (let index = 0; index < 5; index += 1) {
      const failure = await until(
        'the attempt failed',
        async () => (await events()).filter(({ type }) => type === 'DeliveryFailed')[index],
      );
      const { attempt, retry_at, message_id } = failure.data as { attempt: number; retry_at: string; message_id: string };
      expect([message_id, attempt]).toEqual([failing, index + 1]);
      toNextAttempt(retry_at);
    }
    await ended(2);
    expect((await types()).filter((type) => type !== 'DeliveryFailed').slice(-2)).toEqual(['MessageDeadLettered', 'MessageDelivered']);
    const heard = (await talk.messages(agentId)).map(({ id }) => id);
    expect(heard).toEqual([...Array.from({ length: 6 }, () => failing), next]);
  });

  it('to an agent that was stopped waits for the agent to be started', async () => {
    expect((await talk.ask('POST', `/api/agents/${agentId}/stop`)).json.status).toBe('stopped');
    const id = await webhook('are you there?');
    const failure = await until('the attempt failed', async () => (await events()).find(({ type }) => type === 'DeliveryFailed'));
    expect((await talk.ask('POST', `/api/agents/${agentId}/start`)).json.status).toBe('active');
    toNextAttempt(failure.data.retry_at as string);
    await ended(1);
    expect((await talk.messages(agentId)).map((message) => message.id)).toEqual([id]);
  });
});

describe('a webhook to an agent that is being deployed', () => {
  let deferrals = 0;
  const onStep = (message: unknown) => {
    const { saga, key, step } = message as SagaStep;
    if (saga === 'messages' && key === webhookConversation(agentId) && step === 'deferred') deferrals += 1;
  };
  const tryAgain = () => talk.server.app.get(Sagas, { strict: false }).wake('messages', webhookConversation(agentId));
  const status = async () => (await talk.ask('GET', `/api/agents/${agentId}`)).json.status;
  let endBuild: () => void = () => undefined;

  beforeEach(async () => {
    deferrals = 0;
    subscribe(SAGA_STEP_CHANNEL, onStep);
    const build = new Promise<void>((resolve) => (endBuild = resolve));
    talk.runtime.imageWork = (_, signal) => raceAbort(build, signal);
    await talk.server.request('POST', `/api/v1/agents/${agentId}/deploy`, { credential: 'mk_acme' });
    expect(await status()).toBe('deploying');
  });

  afterEach(() => {
    unsubscribe(SAGA_STEP_CHANNEL, onStep);
    endBuild();
    talk.runtime.imageWork = () => Promise.resolve();
  });

  /** Lets the service try the delivery more often than it would before a message is a dead letter. */
  async function isDeferredAgainAndAgain(): Promise<void> {
    for (let times = 1; times <= 8; times += 1) {
      await until(`the delivery was deferred ${times} times`, () => (deferrals >= times ? true : undefined));
      tryAgain();
    }
    expect(await types()).toEqual(['ConversationStarted', 'MessageAccepted', 'MessageAccepted']);
  }

  it('waits for the end of the deployment, however long that takes, and is delivered in order', async () => {
    const ids = [await webhook('one'), await webhook('two')];
    await isDeferredAgainAndAgain();
    endBuild();
    await untilTrue(async () => (await status()) === 'active');
    tryAgain();
    await ended(2);
    const outcomes = (await events()).filter(({ type }) => type !== 'ConversationStarted' && type !== 'MessageAccepted');
    expect(outcomes.map(({ type, data }) => [type, data.message_id])).toEqual(ids.map((id) => ['MessageDelivered', id]));
  });

  it('has its attempts from the first one on after a deployment that did not succeed', async () => {
    const [id] = [await webhook('one'), await webhook('two')];
    await isDeferredAgainAndAgain();
    expect((await talk.ask('POST', `/api/agents/${agentId}/stop`)).json.status).toBe('stopped');
    tryAgain();
    const failure = await until('the attempt failed', async () => (await events()).find(({ type }) => type === 'DeliveryFailed'));
    expect(failure.data).toMatchObject({ message_id: id, attempt: 1 });
  });
});

describe('a message about files', () => {
  const attach = (text: string) => {
    const attachments = [{ path: '/data/inbox/plan.txt', name: 'plan.txt', size: 3, contentType: 'text/plain' }];
    return intake().attachments({ ...posted(), content: { channel: 'attachment', text, attachments } });
  };

  it('comes in the agent’s most recent conversation', async () => {
    await talk.chat('an older one', undefined, agentId);
    const { conversation_id } = (await talk.chat('hello', undefined, agentId)).json;
    await webhook('no conversation of a person');
    expect(await attach('look at this')).toBe(conversation_id);
    const thread = () => talk.pages(conversation_id, '', agentId);
    await until('it was answered', async () => ((await thread()).flat().length === 4 ? true : undefined));
    expect((await thread()).flat()[2]).toMatchObject({ text: 'look at this\n\nAttached files:\n- /data/inbox/plan.txt (3 bytes)' });
    const [told] = (await talk.messages(agentId)).filter(({ channel }) => channel === 'attachment');
    expect(told).toMatchObject({
      conversation_id,
      text: 'look at this',
      attachments: [{ path: '/data/inbox/plan.txt', content_type: 'text/plain' }],
    });
  });

  it('begins a conversation if there is none', async () => {
    const conversation = await attach('');
    await until('it was answered', async () => ((await talk.pages(conversation, '', agentId)).flat().length === 2 ? true : undefined));
  });

  it('that is tried again later delays no chat', async () => {
    const conversation = await attach('fail');
    await until('the attempt failed', async () => (await talk.events(conversation)).find(({ type }) => type === 'DeliveryFailed'));
    const answer = await talk.chat('hello', conversation, agentId);
    expect(answer).toMatchObject({ status: 200, json: { response: 'heard: hello' } });
  });
});
