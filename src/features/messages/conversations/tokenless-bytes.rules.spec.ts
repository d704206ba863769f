import fc from 'fast-check';

import { given } from '../../../../test/support/decider-spec.ts';
import type { Sealed } from '../../../crypto/keyring.ts';
import type { ProblemError } from '../../../kernel/errors/problem-error.ts';
import {
  conversationDecider,
  TOKENLESS_WAITING_MAX,
  WAITING_MAX,
  type Conversation,
  type ConversationCommand,
  type ConversationState,
} from './conversations.decider.ts';
import type { ConversationEvent } from './conversations.events.ts';
import { DRAWS_MAX, TOKENLESS_DRAWS_MAX } from './message-budget.rules.ts';
import { countedBytes } from './tokenless-bytes.rules.ts';

const MIB = 1_048_576;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BYTES_PER_DAY = 16 * MIB;
const text: Sealed = { v: 1, key: 1, iv: 'iv', ct: 'ct' };

const webhook = (
  messageId: string,
  bytes: number,
  { caller = messageId, bytesPerDay = BYTES_PER_DAY } = {},
): Extract<ConversationCommand, { type: 'AcceptMessage' }> => ({
  type: 'AcceptMessage',
  agentId: 'agent',
  accountId: 'account',
  messageId,
  channel: 'webhook',
  text,
  replyBy: null,
  begins: true,
  draws: { caller, limit: 30, chats: [], tokenless: { bytes, bytesPerDay } },
});
const part = (messageId: string, bytes: number, number: number): ConversationCommand => ({
  ...webhook(messageId, bytes),
  type: 'StorePart',
  part: number,
});
const delivered = (message_id: string): ConversationEvent => ({
  type: 'MessageDelivered',
  data: { message_id, channel: 'webhook', agent: 'agent', reply: text },
});
const begun = {
  type: 'ConversationStarted' as const,
  data: { agent_id: 'agent', account_id: 'account', channel: 'webhook' as const, tokenless: true },
};
const fold = (state: ConversationState, events: readonly ConversationEvent[]) =>
  events.reduce(conversationDecider.evolve, state) as Conversation;

/** Sends the command, has it delivered, and returns the state after that, or the seconds of `Retry-After`. */
function send(state: ConversationState, command: ConversationCommand & { messageId: string }, at: number): Conversation | number {
  try {
    const events = conversationDecider.decide(command, state, new Date(at));
    return fold(state, [...events, delivered(command.messageId)]);
  } catch (error) {
    return (error as ProblemError).facts.retryAfterSeconds as number;
  }
}

describe('the webhooks of an agent without its token', () => {
  it('are a conversation that is marked as such, and count against the agent’s daily limit', () => {
    const at = '2026-01-01T00:00:00.000Z';
    given(conversationDecider)
      .when(webhook('m1', 2_000, { caller: 'address 1' }), new Date(at))
      .then(begun, {
        type: 'MessageAccepted',
        data: {
          message_id: 'm1',
          channel: 'webhook',
          text,
          draws: { agent: 'agent', caller: 'address 1', at, tokenless: true },
          counted: { bytes: 2_000, at },
        },
      });
  });

  it('have a shorter queue than those with it, even when one is delivered again', () => {
    expect(TOKENLESS_WAITING_MAX.messages).toBeLessThan(WAITING_MAX.webhook.messages);
    const accepted = (message_id: string): ConversationEvent => ({
      type: 'MessageAccepted',
      data: { message_id, channel: 'webhook', text },
    });
    const waiting = Array.from({ length: TOKENLESS_WAITING_MAX.messages }, (_, n) => accepted(`m${n}`));
    const again: ConversationCommand = { type: 'RequeueMessage', messageId: 'old', channel: 'webhook', revision: 1, bytes: 2 };
    given(conversationDecider, begun, ...waiting)
      .when(webhook('one more', 1))
      .refuses('rate_limited');
    given(conversationDecider, begun, ...waiting)
      .when(again)
      .refuses('rate_limited');
    given(conversationDecider, { ...begun, data: { ...begun.data, tokenless: false } }, ...waiting)
      .when(again)
      .then({ type: 'MessageRequeued', data: { message_id: 'old', channel: 'webhook', revision: 1, bytes: 2 } });
  });

  it('of all callers together are fewer a minute than those with it', () => {
    expect(TOKENLESS_DRAWS_MAX).toBeLessThan(DRAWS_MAX);
    let state: ConversationState = null;
    for (let n = 0; n < TOKENLESS_DRAWS_MAX; n += 1) state = send(state, webhook(`m${n}`, 1_024), n) as Conversation;
    expect(send(state, webhook('one more', 1_024), 30_000)).toBe(30);
    expect(send(state, webhook('one more', 1_024), 60_000)).toMatchObject({ tokenless: true });
  });

  it('of one caller are thirty a minute, as those with the token are', () => {
    let state: ConversationState = null;
    for (let n = 0; n < 30; n += 1) state = send(state, webhook(`m${n}`, 1_024, { caller: 'address 1' }), n) as Conversation;
    expect(send(state, webhook('one more', 1_024, { caller: 'address 1' }), 30_000)).toBe(30);
    expect(send(state, webhook('one more', 1_024, { caller: 'address 2' }), 30_000)).toMatchObject({ tokenless: true });
  });
});

describe('the bytes of the webhooks without a token in a day', () => {
  it('are those of the body or of the headers, and at least what the shortest one takes when it is stored', () => {
    expect([countedBytes(0, 0), countedBytes(5_000, 300), countedBytes(10, 9_000), countedBytes(MIB, 300)]).toEqual([
      8_192,
      8_192,
      9_000,
      MIB,
    ]);
  });

  it('end at the bound, until the first of them are a day old', () => {
    let state: ConversationState = null;
    const began = 7 * HOUR_MS;
    for (let n = 0; n < 16; n += 1) state = send(state, webhook(`m${n}`, MIB), began + n) as Conversation;
    const waitSeconds = send(state, webhook('one more', 1_024), began + 60_000) as number;
    expect(waitSeconds).toBe(25 * 3_600 - 60);
    expect(send(state, webhook('one more', 1_024), began + DAY_MS)).toEqual(expect.any(Number));
    expect(send(state, webhook('one more', 1_024), began + 60_000 + waitSeconds * 1_000)).toMatchObject({ tokenless: true });
  });

  it('count a long webhook once, before any of it is stored, though it may be refused in the end', () => {
    let state: ConversationState = null;
    const at = new Date(0);
    for (let n = 0; n < 15; n += 1) state = fold(state, conversationDecider.decide(part(`m${n}`, MIB, 1), state, at));
    const whole = fold(state, conversationDecider.decide(part('whole', MIB, 1), state, at));
    expect(() => conversationDecider.decide(part('too much', MIB, 1), whole, at)).toThrow('in a day');
    const rest = [...conversationDecider.decide(part('whole', MIB, 2), whole, at)];
    const end = { ...webhook('whole', MIB), parts: { revisions: [16, 17], bytes: 10 } };
    const accepted = conversationDecider.decide(end, fold(whole, rest), at);
    expect([...rest, ...accepted].map(({ type, data }) => [type, 'counted' in data])).toEqual([
      ['MessagePartStored', false],
      ['MessageAccepted', false],
    ]);
  });

  it('do not count in the conversation of those with the token', () => {
    const { draws, ...others } = webhook('m1', MIB);
    const withToken = { ...others, draws: { caller: 'token 1', limit: 30, chats: draws?.chats ?? [] } };
    const [, accepted] = conversationDecider.decide(withToken, null, new Date(0));
    expect(accepted?.data).not.toHaveProperty('counted');
    expect(fold(null, conversationDecider.decide(withToken, null, new Date(0)))).toMatchObject({ tokenless: false, bytesByHour: [] });
  });

  it('never exceed the bound in any day, whatever comes when, and one is taken after Retry-After', () => {
    const sizes = fc.integer({ min: 1_024, max: MIB });
    const pauses = fc.oneof(fc.nat(60_000), fc.nat(6 * HOUR_MS));
    fc.assert(
      fc.property(fc.array(fc.tuple(pauses, sizes), { maxLength: 120 }), (steps) => {
        let state: ConversationState = null;
        let now = 0;
        const taken: { at: number; bytes: number }[] = [];
        const tried = (name: string, bytes: number) => {
          const after = send(state, webhook(name, bytes, { bytesPerDay: 3 * MIB }), now);
          if (typeof after === 'number') return after;
          state = after;
          taken.push({ at: now, bytes });
          return null;
        };
        for (const [index, [pauseMs, bytes]] of steps.entries()) {
          now += pauseMs;
          const waitSeconds = tried(`m${index}`, bytes);
          if (waitSeconds === null) continue;
          now += waitSeconds * 1_000;
          expect(tried(`again ${index}`, bytes)).toBeNull();
        }
        expect((state as Conversation | null)?.bytesByHour.length ?? 0).toBeLessThanOrEqual(25);
        for (const { at } of taken) {
          const ofDay = taken.filter((other) => other.at > at - DAY_MS && other.at <= at);
          expect(ofDay.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(3 * MIB);
        }
      }),
    );
  });
});
