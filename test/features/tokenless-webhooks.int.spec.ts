import { randomUUID } from 'node:crypto';

import { Database } from '../../src/postgres/database/database.ts';
import { PacedRefusals, refusalRate } from '../../src/http/limits/paced-refusals.ts';
import { Aggregates } from '../../src/eventsourcing/aggregates/aggregates.ts';
import { tokenlessConversation, webhookConversation } from '../../src/features/messages/index.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

const KIB = 1_024;

let talk: ChatFixture;
let agentId: string;
let token: string;

/** One delivery at a time: a webhook that took a place of the others would hold all of them up. */
const environment = {
  MOORING_TRUSTED_PROXIES: '127.0.0.1',
  MOORING_TOKENLESS_MB_PER_DAY: '1',
  MOORING_REPLY_TIMEOUT: '2',
  MOORING_DELIVERIES: '1',
};

beforeAll(async () => {
  talk = await startChatFixture(environment);
  Object.assign(talk.server.app.get(PacedRefusals, { strict: false }).rate, refusalRate(100_000));
});
beforeEach(async () => {
  agentId = await talk.deployed();
  token = (await talk.ask('GET', `/api/webhooks/${agentId}/token`)).json.token as string;
});
afterAll(() => talk?.server.close());

const post = (body: string | Buffer, headers: Record<string, string>) =>
  talk.server.request('POST', `/api/webhooks/${agentId}`, { body, headers });
const fromOwner = (body: string | Buffer, headers: Record<string, string> = {}) =>
  post(body, { ...headers, 'x-service-webhook-token': token });
const fromStranger = (body: string | Buffer, address = 1, headers: Record<string, string> = {}) =>
  post(body, { ...headers, 'x-forwarded-for': `203.0.113.${address}` });
const accepted = { status: 202, json: { accepted: true } };

const ofOwner = () => talk.events(webhookConversation(agentId));
const ofStrangers = () => talk.events(tokenlessConversation(agentId));
const event = (what: string, events: () => ReturnType<typeof ofOwner>, type: string, messageId: string) =>
  until(what, async () => (await events()).find((each) => each.type === type && each.data.message_id === messageId));
const deliveryOf = async (id: string) => {
  const { json } = await talk.ask('GET', `/api/agents/${agentId}/deliveries`);
  return (json as { id: string; status: string; attempts: number; conversationId: string }[]).find((each) => each.id === id);
};

describe('a webhook with the token', () => {
  it('is taken and delivered, whatever 33 strangers send', async () => {
    const strangers = Array.from({ length: 33 }, async (_, address) => {
      const statuses = [];
      for (let n = 0; n < 30; n += 1) statuses.push((await fromStranger(`stranger ${address}: ${n}`, address)).status);
      return statuses;
    });
    const statuses = (await Promise.all(strangers)).flat();
    expect(new Set(statuses)).toEqual(new Set([202, 429]));
    const answer = await fromOwner('mine');
    expect(answer).toMatchObject(accepted);
    await event('it is delivered', ofOwner, 'MessageDelivered', answer.json.message_id as string);
    expect((await talk.messages(agentId)).map(({ payload }) => payload)).toContain('mine');
  });

  it('does not wait for one without it that the agent refuses again and again', async () => {
    const failing = (await fromStranger('fail')).json.message_id as string;
    const behind = (await fromStranger('behind it', 2)).json.message_id as string;
    await event('an attempt has failed', ofStrangers, 'DeliveryFailed', failing);
    const mine = (await fromOwner('mine')).json.message_id as string;
    await event('it is delivered', ofOwner, 'MessageDelivered', mine);
    expect((await ofStrangers()).filter(({ type }) => type === 'MessageDelivered' || type === 'MessageDeadLettered')).toEqual([]);
    expect((await talk.messages(agentId)).map(({ id }) => id)).not.toContain(behind);
  });

  it('does not wait for one without it that the agent has and does not answer', async () => {
    const hanging = (await fromStranger('hang')).json.message_id as string;
    await until('the agent has it', async () => ((await heard()).includes(hanging) ? true : undefined));
    const mine = (await fromOwner('mine')).json.message_id as string;
    const delivered = await event('it is delivered', ofOwner, 'MessageDelivered', mine);
    const failed = await event('the other one is given up for now', ofStrangers, 'DeliveryFailed', hanging);
    expect(delivered.position < failed.position).toBe(true);
  });

  it('goes before those without it', async () => {
    const mine = (await fromOwner('hang-once')).json.message_id as string;
    await until('the agent has it', async () => ((await heard()).includes(mine) ? true : undefined));
    const other = (await fromStranger('behind')).json.message_id as string;
    const failed = await event('it has waited in vain', ofOwner, 'DeliveryFailed', mine);
    const delivered = await event('the other one has its turn', ofStrangers, 'MessageDelivered', other);
    expect(failed.position < delivered.position).toBe(true);
  });

  it('is none of another sender, who sent one with the same Idempotency-Key or the same name before', async () => {
    for (const name of ['idempotency-key', 'x-github-delivery']) {
      const header = { [name]: 'order-1001' };
      const strangers = [await fromStranger('a stranger', 1, header), await fromStranger('another one', 2, header)];
      const mine = await fromOwner('mine', header);
      const again = await fromOwner('mine', header);
      expect([...strangers, mine, again]).toMatchObject(Array.from({ length: 4 }, () => accepted));
      expect(again.json).toEqual(mine.json);
      expect(new Set([...strangers, mine].map(({ json }) => json.message_id as string)).size).toBe(3);
      await event('it is delivered', ofOwner, 'MessageDelivered', mine.json.message_id as string);
    }
    expect((await talk.messages(agentId)).filter(({ payload }) => payload === 'mine')).toHaveLength(2);
  });

  const heard = async () => (await talk.messages(agentId).catch(() => [])).map(({ id }) => id);
});

describe('webhooks without the token', () => {
  it('are as many bytes a day as the operator allows, however many come at once, and refuse no others', async () => {
    const body = Buffer.alloc(300 * KIB, 'x');
    const answers = await Promise.all([1, 2, 3, 4, 5].map((address) => fromStranger(body, address)));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([202, 202, 202, 429, 429]);
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.json).toMatchObject({ code: 'rate_limited', detail: expect.stringContaining('in a day') });
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(23 * 3_600);
    const mine = await fromOwner(body);
    expect(mine).toMatchObject(accepted);
    await event('it is delivered', ofOwner, 'MessageDelivered', mine.json.message_id as string);
    expect(await fromStranger('a short one', 4)).toMatchObject(accepted);
    const counted = (await ofStrangers()).reduce((sum, { data }) => sum + ((data.counted as { bytes: number } | undefined)?.bytes ?? 0), 0);
    expect(counted).toBe(908 * KIB);
  });

  it('beyond the day cost no row and no look at the log, whatever their keys and addresses', async () => {
    const body = Buffer.alloc(300 * KIB, 'x');
    for (const address of [1, 2, 3]) expect(await fromStranger(body, address)).toMatchObject(accepted);
    const keyed = (address: number) => post(body, { 'x-forwarded-for': `203.0.113.${address}`, 'idempotency-key': randomUUID() });
    const database = talk.server.app.get(Database, { strict: false });
    const rows = async () => (await database.query('select id from idempotency_keys')).length;
    const before = await rows();
    expect((await keyed(4)).status).toBe(429);
    const executed = jest.spyOn(talk.server.app.get(Aggregates, { strict: false }), 'execute');
    const answers = await Promise.all([5, 6, 7].map(keyed));
    expect(answers.map(({ status, headers }) => [status, Number(headers.get('retry-after')) > 23 * 3_600])).toEqual(
      Array.from({ length: 3 }, () => [429, true]),
    );
    const decided = executed.mock.calls.map(([, , command]) => (command as { type: string }).type);
    executed.mockRestore();
    expect(decided.filter((type) => ['AcceptMessage', 'StorePart'].includes(type))).toEqual([]);
    expect(await rows()).toBe(before);
    expect(await fromStranger('a short one', 4)).toMatchObject(accepted);
    expect(await fromOwner(body)).toMatchObject(accepted);
  });

  it('are in the list of deliveries and in a thread of their own, and can be delivered again', async () => {
    const id = (await fromStranger('hello')).json.message_id as string;
    await event('it is delivered', ofStrangers, 'MessageDelivered', id);
    expect(await deliveryOf(id)).toMatchObject({ status: 'delivered', conversationId: tokenlessConversation(agentId) });
    const [page] = await talk.pages(tokenlessConversation(agentId), '', agentId);
    expect(page?.map(({ text }) => text)).toEqual(['hello', 'heard: hello']);
    expect(await talk.ask('POST', `/api/agents/${agentId}/deliveries/${id}/redeliver`)).toMatchObject({ status: 202 });
    await until('the agent has it again', async () => ((await talk.messages(agentId)).length === 2 ? true : undefined));
  });

  it('are refused by an agent that wants none, until it wants them again; what was accepted is delivered', async () => {
    const path = `/api/v1/agents/${agentId}`;
    expect((await talk.ask('GET', path)).json).toMatchObject({ tokenless_webhooks: true });
    expect((await talk.ask('GET', `/api/agents/${agentId}`)).json).toMatchObject({ tokenlessWebhooks: true });
    const before = (await fromStranger('before')).json.message_id as string;
    expect(await talk.ask('PATCH', path, { tokenless_webhooks: false })).toMatchObject({
      status: 200,
      json: { tokenless_webhooks: false },
    });
    expect(await fromStranger('x')).toMatchObject({ status: 401, json: { code: 'unauthenticated' } });
    expect(await fromOwner('x')).toMatchObject(accepted);
    await event('it is delivered', ofStrangers, 'MessageDelivered', before);
    expect(await talk.ask('PATCH', path, { tokenless_webhooks: 'no' })).toMatchObject({ status: 400, json: { code: 'invalid_request' } });
    await talk.ask('PATCH', path, { tokenless_webhooks: true });
    expect(await fromStranger('x')).toMatchObject(accepted);
  });

  it('of one network of IPv6 are those of one caller', async () => {
    const from = (address: string) => post('x', { 'x-forwarded-for': address });
    const statuses = [];
    for (let n = 0; n < 31; n += 1) statuses.push((await from(`2001:db8:0:1::${n}`)).status);
    expect(statuses).toEqual([...Array.from({ length: 30 }, () => 202), 429]);
    expect((await from('2001:db8:0:2::1')).status).toBe(202);
  });

  it('of a deleted agent are deleted with its key', async () => {
    const id = (await fromStranger(`secret ${randomUUID()}`)).json.message_id as string;
    await event('it is delivered', ofStrangers, 'MessageDelivered', id);
    expect((await talk.ask('DELETE', `/api/v1/agents/${agentId}`)).status).toBe(204);
    const path = `/api/agents/${agentId}/conversations/${tokenlessConversation(agentId)}/messages`;
    expect(await talk.ask('GET', path)).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
  });
});
