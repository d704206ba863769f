import fc from 'fast-check';
import type { Sealed } from '../../../crypto/keyring.ts';
import type { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { given } from '../../../../test/support/decider-spec.ts';
import {
  conversationDecider,
  isPostponed,
  nextMessage,
  RETRY_DELAYS_MS,
  withPostponed,
  WAITING_MAX,
  type Conversation,
  type ConversationCommand,
} from './conversations.decider.ts';
import type { Channel, ConversationEvent } from './conversations.events.ts';
import { BUDGET_WINDOW_MS, DRAWS_MAX } from './message-budget.rules.ts';

const sealed = (name: string): Sealed => ({ v: 1, key: 1, iv: 'iv', ct: name });
const accept = (
  messageId: string,
  begins = false,
  replyBy: string | null = null,
): Extract<ConversationCommand, { type: 'AcceptMessage' }> => ({
  type: 'AcceptMessage',
  agentId: 'agent',
  accountId: 'account',
  messageId,
  channel: 'chat',
  text: sealed(messageId),
  replyBy,
  begins,
});
const started: ConversationEvent = { type: 'ConversationStarted', data: { agent_id: 'agent', account_id: 'account', channel: 'chat' } };
const accepted = (message_id: string): ConversationEvent => ({
  type: 'MessageAccepted',
  data: { message_id, channel: 'chat', text: sealed(message_id) },
});
const failed = (attempt: number, retry_at: string): ConversationEvent => ({
  type: 'DeliveryFailed',
  data: { message_id: 'm1', attempt, reason: 'silence', retry_at },
});

describe('a conversation', () => {
  it('begins with its first message', () => {
    given(conversationDecider).when(accept('m1', true)).then(started, accepted('m1'));
  });

  it('is unknown until it has begun', () => {
    given(conversationDecider).when(accept('m1')).refuses('conversation_not_found');
  });

  it('is unknown to another agent, and to another account', () => {
    given(conversationDecider, started)
      .when({ ...accept('m1'), agentId: 'other' })
      .refuses('conversation_not_found');
    given(conversationDecider, started)
      .when({ ...accept('m1'), accountId: 'other' })
      .refuses('conversation_not_found');
  });

  it('accepts a message once, however often it is sent', () => {
    given(conversationDecider, started, accepted('m1')).when(accept('m1')).then();
  });

  it('refuses more messages than may wait', () => {
    const waiting = Array.from({ length: WAITING_MAX.chat.messages }, (_, index) => accepted(`m${index}`));
    given(conversationDecider, started, ...waiting)
      .when(accept('one more'))
      .refuses('rate_limited');
  });

  it('refuses messages that are too long together, and accepts them again after some were delivered', () => {
    const long = (name: string): Sealed => ({ ...sealed(name), ct: 'x'.repeat(WAITING_MAX.chat.bytes / 2) });
    const waits = (message_id: string): ConversationEvent => ({
      type: 'MessageAccepted',
      data: { message_id, channel: 'chat', text: long(message_id) },
    });
    const delivered: ConversationEvent = { type: 'MessageDelivered', data: { message_id: 'm1', reply: sealed('r1') } };
    given(conversationDecider, started, waits('m1'), waits('m2')).when(accept('m3')).refuses('rate_limited');
    given(conversationDecider, started, waits('m1'), waits('m2'), delivered).when(accept('m3')).then(accepted('m3'));
  });

  it('records until when the sender waits', () => {
    const replyBy = '2026-01-01T00:00:10.000Z';
    const data = { message_id: 'm1', channel: 'chat' as const, text: sealed('m1'), reply_by: replyBy };
    given(conversationDecider, started)
      .when(accept('m1', false, replyBy))
      .then({ type: 'MessageAccepted', data });
  });

  it('keeps no text in its state, but the revision of each waiting message', () => {
    const failure = failed(1, '2026-01-01T00:00:00.000Z');
    const events = [
      started,
      accepted('m1'),
      failure,
      accepted('secret'),
      { type: 'MessageDelivered', data: { message_id: 'm1', reply: sealed('r') } },
    ];
    const state = (events as ConversationEvent[]).reduce(conversationDecider.evolve, conversationDecider.initialState());
    expect(state).toMatchObject({ revision: 4, pending: [{ id: 'secret', revision: 3 }] });
    expect(JSON.stringify(state)).not.toContain('"ct"');
  });

  it('records a reply once', () => {
    const reply: ConversationCommand = { type: 'RecordReply', messageId: 'm1', reply: sealed('r1') };
    const delivered: ConversationEvent = { type: 'MessageDelivered', data: { message_id: 'm1', reply: sealed('r1') } };
    given(conversationDecider, started, accepted('m1')).when(reply).then(delivered);
    given(conversationDecider, started, accepted('m1'), delivered).when(reply).then();
  });

  it('keeps the task with which the agent asks back until the next reply', () => {
    const asks: ConversationCommand = { type: 'RecordReply', messageId: 'm1', reply: sealed('which one?'), openTask: 't1' };
    const asked: ConversationEvent = { type: 'MessageDelivered', data: { message_id: 'm1', reply: sealed('which one?'), open_task: 't1' } };
    given(conversationDecider, started, accepted('m1')).when(asks).then(asked);
    const answered: ConversationEvent = { type: 'MessageDelivered', data: { message_id: 'm2', reply: sealed('the red one') } };
    const dead: ConversationEvent = { type: 'MessageDeadLettered', data: { message_id: 'm2', code: 'agent_failed', reason: 'silence' } };
    const taskAfter = (...events: ConversationEvent[]) =>
      events.reduce(conversationDecider.evolve, conversationDecider.initialState())?.openTask;
    expect(taskAfter(started, accepted('m1'), asked, accepted('m2'))).toBe('t1');
    expect(taskAfter(started, accepted('m1'), asked, accepted('m2'), dead)).toBe('t1');
    expect(taskAfter(started, accepted('m1'), asked, accepted('m2'), answered)).toBeNull();
  });

  it('retries after growing delays, then dead-letters the message', () => {
    const now = new Date('2026-01-01T00:00:00.000Z');
    const attempt: ConversationCommand = { type: 'RecordFailedAttempt', messageId: 'm1', code: 'agent_unavailable', reason: 'silence' };
    const events: ConversationEvent[] = [started, accepted('m1')];
    for (const [index, delayMs] of RETRY_DELAYS_MS.chat.entries()) {
      const next = failed(index + 1, new Date(now.getTime() + delayMs).toISOString());
      given(conversationDecider, ...events)
        .when(attempt, now)
        .then(next);
      events.push(next);
    }
    given(conversationDecider, ...events)
      .when(attempt, now)
      .then({ type: 'MessageDeadLettered', data: { message_id: 'm1', code: 'agent_unavailable', reason: 'silence' } });
  });

  it('delivers in order, with one outcome for each message, whatever the attempts return', () => {
    const outcome = fc.constantFrom('RecordReply', 'RecordFailedAttempt', 'RecordDeadLetter', 'accept');
    fc.assert(
      fc.property(fc.array(outcome, { maxLength: 60 }), (steps) => {
        const ends: string[] = [];
        let events = conversationDecider.decide(accept('m0', true), null, new Date(0));
        for (const [index, step] of steps.entries()) {
          const state = events.reduce(conversationDecider.evolve, conversationDecider.initialState());
          const messageId = state?.pending[0]?.id ?? 'none';
          const command =
            step === 'accept'
              ? accept(`m${index + 1}`)
              : ({ type: step, messageId, reply: sealed('r'), reason: 'x', code: 'agent_failed' } as ConversationCommand);
          const decided = conversationDecider.decide(command, state, new Date(0));
          for (const event of decided)
            if (event.type === 'MessageDelivered' || event.type === 'MessageDeadLettered') ends.push(event.data.message_id);
          events = [...events, ...decided];
        }
        const order = events.flatMap((event) => (event.type === 'MessageAccepted' ? [event.data.message_id] : []));
        expect(ends).toEqual(order.slice(0, ends.length));
      }),
    );
  });
});

const webhook = (messageId: string, more: Partial<Extract<ConversationCommand, { type: 'AcceptMessage' }>> = {}) => ({
  ...accept(messageId, true),
  channel: 'webhook' as const,
  ...more,
});
const stateAfter = (events: ConversationEvent[]) =>
  events.reduce(conversationDecider.evolve, conversationDecider.initialState()) as Conversation;
const came = (message_id: string, channel: Channel): ConversationEvent => ({
  type: 'MessageAccepted',
  data: { message_id, channel, text: sealed(message_id) },
});

describe('a message whose sender does not wait', () => {
  const now = new Date('2026-01-01T00:00:00.000Z');

  it.each(['webhook', 'attachment'] as const)(
    'is retried after 1 s, 5 s, 30 s, 2 min and 10 min on the channel %s, then dead-lettered',
    (channel) => {
      const attempt: ConversationCommand = {
        type: 'RecordFailedAttempt',
        messageId: 'm1',
        code: 'agent_failed',
        reason: 'it answered 500',
      };
      const events: ConversationEvent[] = [started, came('m1', channel)];
      for (const [index, seconds] of [1, 5, 30, 120, 600].entries()) {
        const retry_at = new Date(now.getTime() + seconds * 1_000).toISOString();
        const next: ConversationEvent = {
          type: 'DeliveryFailed',
          data: { message_id: 'm1', channel, agent: 'agent', attempt: index + 1, reason: 'it answered 500', retry_at },
        };
        given(conversationDecider, ...events)
          .when(attempt, now)
          .then(next);
        events.push(next);
      }
      given(conversationDecider, ...events)
        .when(attempt, now)
        .then({
          type: 'MessageDeadLettered',
          data: { message_id: 'm1', channel, agent: 'agent', code: 'agent_failed', reason: 'it answered 500' },
        });
    },
  );

  it('delays those behind it until its next attempt, but not a chat', () => {
    const failure: ConversationEvent = {
      type: 'DeliveryFailed',
      data: { message_id: 'm1', channel: 'attachment', attempt: 1, reason: 'x', retry_at: '2026-01-01T00:00:05.000Z' },
    };
    const waiting = stateAfter([started, came('m1', 'attachment'), failure, came('m2', 'attachment')]);
    expect(nextMessage(waiting, now)?.id).toBe('m1');
    expect(isPostponed(nextMessage(waiting, now)!, now)).toBe(true);
    const withChat = stateAfter([started, came('m1', 'attachment'), failure, came('m2', 'attachment'), accepted('chat')]);
    expect(nextMessage(withChat, now)?.id).toBe('chat');
    expect(nextMessage(withChat, new Date('2026-01-01T00:00:05.000Z'))?.id).toBe('m1');
  });

  it('that is deferred counts no attempt, and chats pass it until it is tried again', () => {
    const waiting = withPostponed(
      stateAfter([started, came('m1', 'attachment'), came('m2', 'attachment')]),
      'm1',
      new Date(now.getTime() + 1),
    );
    expect(nextMessage(waiting, now)).toMatchObject({ id: 'm1', attempts: 0 });
    expect(isPostponed(nextMessage(waiting, now)!, now)).toBe(true);
    expect(isPostponed(nextMessage(waiting, now)!, new Date(now.getTime() + 1))).toBe(false);
    const withChat = stateAfter([started, came('m1', 'attachment'), accepted('chat')]);
    expect(nextMessage(withChat, now)?.id).toBe('m1');
    expect(nextMessage(withPostponed(withChat, 'm1', new Date(now.getTime() + 1)), now)?.id).toBe('chat');
  });

  it('is delivered once more if that is requested after its end, and is queued only once', () => {
    const again: ConversationCommand = { type: 'RequeueMessage', messageId: 'm1', channel: 'webhook', revision: 1, bytes: 2 };
    const dead: ConversationEvent = {
      type: 'MessageDeadLettered',
      data: { message_id: 'm1', channel: 'webhook', code: 'agent_failed', reason: 'x' },
    };
    const requeued: ConversationEvent = { type: 'MessageRequeued', data: { message_id: 'm1', channel: 'webhook', revision: 1, bytes: 2 } };
    given(conversationDecider, started, came('m1', 'webhook'), dead).when(again).then(requeued);
    given(conversationDecider, started, came('m1', 'webhook'), dead, requeued).when(again).then();
    given(conversationDecider, started, came('m1', 'webhook')).when(again).then();
    expect(stateAfter([started, came('m1', 'webhook'), dead, requeued]).pending).toMatchObject([
      { id: 'm1', revision: 1, requeuedAt: 3, attempts: 0 },
    ]);
  });

  it('may be long: its parts come before it and count with it', () => {
    const part: ConversationCommand = { ...webhook('m1'), type: 'StorePart', part: 1 };
    const stored: ConversationEvent = { type: 'MessagePartStored', data: { message_id: 'm1', part: 1, text: sealed('m1') } };
    const begun: ConversationEvent = {
      type: 'ConversationStarted',
      data: { agent_id: 'agent', account_id: 'account', channel: 'webhook' },
    };
    given(conversationDecider).when(part).then(begun, stored);
    const parts = { revisions: [1], bytes: 10 };
    const whole: ConversationEvent = { type: 'MessageAccepted', data: { message_id: 'm1', channel: 'webhook', text: sealed('m1'), parts } };
    given(conversationDecider, begun, stored).when(webhook('m1', { parts })).then(whole);
    expect(stateAfter([begun, stored, whole]).pending).toMatchObject([{ id: 'm1', revision: 2, bytes: 12 }]);
  });
});

describe('the budget of an agent and a caller', () => {
  const drawn = (at: number, caller = 'token'): ConversationEvent => ({
    type: 'MessageAccepted',
    data: {
      message_id: `at ${at}`,
      channel: 'webhook',
      text: sealed('x'),
      draws: { agent: 'agent', caller, at: new Date(at).toISOString() },
    },
  });
  const done = (at: number): ConversationEvent => ({
    type: 'MessageDelivered',
    data: { message_id: `at ${at}`, channel: 'webhook', reply: sealed('r') },
  });
  const with30 = (caller: string, chats: number[] = []) => webhook('new', { draws: { caller, limit: 30, chats } });
  const thirty = Array.from({ length: 30 }, (_, second) => [drawn(second * 1_000), done(second * 1_000)]).flat();

  it('refuses the 31st webhook in a minute, with the time after which there is room', () => {
    given(conversationDecider, started, ...thirty)
      .when(with30('token'), new Date(30_000))
      .refuses('rate_limited');
    expect(retryAfter(() => conversationDecider.decide(with30('token'), stateAfter([started, ...thirty]), new Date(30_400)))).toBe(30);
    expect(conversationDecider.decide(with30('token'), stateAfter([started, ...thirty]), new Date(60_000))).toHaveLength(1);
  });

  it('is another one for each caller', () => {
    expect(conversationDecider.decide(with30('other'), stateAfter([started, ...thirty]), new Date(30_000))).toHaveLength(1);
  });

  it('is shared with the chats of the agent, which are not refused themselves', () => {
    const chats = Array.from({ length: 30 }, (_, n) => 1_000 + n);
    given(conversationDecider, started).when(with30('token', chats), new Date(2_000)).refuses('rate_limited');
    expect(conversationDecider.decide(accept('m'), stateAfter([started, ...thirty]), new Date(30_000))).toHaveLength(1);
  });

  it('is shared with the handshakes of the caller, which are no messages', () => {
    const draws = { caller: 'token', limit: 30, chats: [] };
    const handshake: ConversationCommand = { type: 'AcceptHandshake', agentId: 'agent', accountId: 'account', method: 'GET', draws };
    const at = (ms: number): ConversationEvent => ({
      type: 'HandshakeAccepted',
      data: { channel: 'webhook', agent: 'agent', method: 'GET', draws: { caller: 'token', at: new Date(ms).toISOString() } },
    });
    const begun: ConversationEvent = {
      type: 'ConversationStarted',
      data: { agent_id: 'agent', account_id: 'account', channel: 'webhook' },
    };
    given(conversationDecider).when(handshake, new Date(5)).then(begun, at(5));
    given(conversationDecider, started, ...thirty)
      .when(handshake, new Date(30_000))
      .refuses('rate_limited');
    const handshakes = Array.from({ length: 30 }, (_, second) => at(second * 1_000));
    given(conversationDecider, begun, ...handshakes)
      .when(with30('token'), new Date(30_000))
      .refuses('rate_limited');
    expect(stateAfter([begun, ...handshakes]).pending).toEqual([]);
    given(conversationDecider, begun)
      .when({ ...handshake, accountId: 'another' })
      .refuses('conversation_not_found');
  });

  it('of all callers together is bounded', () => {
    const many = Array.from({ length: DRAWS_MAX }, (_, n) => [drawn(n, `caller ${n}`), done(n)]).flat();
    given(conversationDecider, started, ...many)
      .when(with30('one more'), new Date(2_000))
      .refuses('rate_limited');
  });

  it('never lets more through in any minute, and always lets one through after Retry-After', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20_000), { maxLength: 60 }), fc.integer({ min: 1, max: 5 }), (pauses, limit) => {
        let state = stateAfter([started]);
        let now = 0;
        const taken: number[] = [];
        const send = (index: string) => {
          const command = webhook(index, { draws: { caller: 'token', limit, chats: [] } });
          const events = conversationDecider.decide(command, state, new Date(now));
          const outcome: ConversationEvent = {
            type: 'MessageDelivered',
            data: { message_id: index, channel: 'webhook', reply: sealed('r') },
          };
          state = [...events, outcome].reduce(conversationDecider.evolve, state) as Conversation;
          taken.push(now);
        };
        for (const [index, ms] of pauses.entries()) {
          now += ms;
          const waitSeconds = retryAfter(() => send(`m${index}`));
          if (waitSeconds === undefined) continue;
          now += waitSeconds * 1_000;
          send(`again ${index}`);
        }
        for (const at of taken)
          expect(taken.filter((other) => other > at - BUDGET_WINDOW_MS && other <= at).length).toBeLessThanOrEqual(limit);
      }),
    );
  });
});

function retryAfter(work: () => unknown): number | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as ProblemError).facts.retryAfterSeconds;
  }
}
