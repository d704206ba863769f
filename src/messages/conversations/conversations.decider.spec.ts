import fc from 'fast-check';
import type { Sealed } from '../../platform/crypto/keyring.ts';
import { given } from '../../../test/support/decider-spec.ts';
import { conversationDecider, PENDING_BYTES_MAX, PENDING_MAX, RETRY_DELAYS_MS, type ConversationCommand } from './conversations.decider.ts';
import type { ConversationEvent } from './conversations.events.ts';

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
    const waiting = Array.from({ length: PENDING_MAX }, (_, index) => accepted(`m${index}`));
    given(conversationDecider, started, ...waiting)
      .when(accept('one more'))
      .refuses('rate_limited');
  });

  it('refuses messages that are too long together, and accepts them again after some were delivered', () => {
    const long = (name: string): Sealed => ({ ...sealed(name), ct: 'x'.repeat(PENDING_BYTES_MAX / 2) });
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

  it('tries again after growing waits, then gives the message up', () => {
    const now = new Date('2026-01-01T00:00:00.000Z');
    const attempt: ConversationCommand = { type: 'RecordFailedAttempt', messageId: 'm1', code: 'agent_unavailable', reason: 'silence' };
    const events: ConversationEvent[] = [started, accepted('m1')];
    for (const [index, delayMs] of RETRY_DELAYS_MS.entries()) {
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
