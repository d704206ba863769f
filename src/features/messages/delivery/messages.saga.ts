/*
 * Delivers the accepted messages of all conversations and records the outcomes. A key is one conversation.
 *
 * It owns the order of deliveries within a conversation, the retries, and the records. It does not own an attempt itself
 * (`MessageDelivery`) or the rules of a conversation (conversations.decider.ts).
 *
 * Invariants:
 * M1. The messages of a conversation are delivered one at a time and in order, except that a chat passes a message that waits for its
 *     retry.
 * M2. Every accepted message is delivered at least once. The outcome is recorded after the delivery, so a crash in between repeats the
 *     delivery. The record has a derived event id, so repeating the record changes nothing.
 * M3. A reply is recorded however late it arrives. That there was no reply is recorded only by the process that may deliver now.
 * M4. An agent's webhooks without a token wait until none with the token is due. They are a conversation of their own.
 * M5. A pass that waits (for a retry, a slot, the agent or the reply) holds no slot of the saga. Retry times are stored, so that they
 *     survive a crash and cost nothing meanwhile.
 * M6. A message that nobody waits for is deferred while its agent is being deployed: it is tried again after a pause, however often. Chats
 *     pass it meanwhile.
 */

import { Injectable, type OnModuleInit } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { v5 as uuidv5 } from 'uuid';

import { Clock } from '../../../kernel/clock.ts';
import { idOf, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { Sagas, type Saga, type SagaKey, type SagaPass } from '../../../eventsourcing/sagas/saga.ts';
import { sagaStep } from '../../../eventsourcing/sagas/saga-step.ts';
import {
  isPostponed,
  nextMessage,
  withPostponed,
  type Conversation,
  type ConversationCommand,
  type ConversationState,
  type PendingMessage,
} from '../conversations/conversations.decider.ts';
import { ListWaitingConversations } from '../conversations/conversations.queries.ts';
import { Conversations } from '../conversations/conversations.service.ts';
import { webhookConversation } from '../conversations/webhook-lanes.ts';
import { MessageDelivery, type DeliveryOutcome } from './message-delivery.service.ts';

/** Derived event ids make a record that is repeated after a crash the same event. */
const RECORD_NAMESPACE = '5f0f6f0e-7c0e-4a53-9d0b-0e8f1d6c2a11';
/** The number of attempts after which a pass ends, so that another one begins with the newest state. */
const ATTEMPTS_PER_PASS_MAX = 100;
/** A webhook without a token waits this long, in ms, for an outcome of one with the token, and tries again after the second time. */
const TOKENLESS_WAIT_MS = 120_000;
const TOKENLESS_RETRY_MS = 1_000;
/** The most conversations of webhooks without a token that wait like this in one process. Further ones try again later. */
const TOKENLESS_WAITS_MAX = 1_000;
/** The pause in ms before a deferred message is tried again. It is as long for each one, so that no message waits long after a deployment. */
const DEFERRAL_MS = 15_000;

/**
 * Delivers accepted messages, in order within a conversation and concurrently across conversations. Thousands of passes may wait without a
 * slot; slots are for loading and recording.
 */
@Injectable()
export class MessagesSaga implements Saga, OnModuleInit {
  readonly name = 'messages';
  readonly filter = { eventClass: 'core' as const, categories: ['conversation'], types: ['MessageAccepted', 'MessageRequeued'] };
  readonly concurrency = 32;
  private waitingTokenless = 0;

  constructor(
    private readonly sagas: Sagas,
    private readonly conversations: Conversations,
    private readonly delivery: MessageDelivery,
    private readonly queries: QueryBus,
    private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    this.sagas.register(this);
  }

  keyOf(event: StoredEvent): string {
    return idOf(event.stream);
  }

  resync(): Promise<SagaKey[]> {
    return this.queries.execute(new ListWaitingConversations());
  }

  async reconcile(conversationId: string, pass: SagaPass): Promise<Date | null> {
    // Each turn of the loop makes an attempt or postpones a message. Other writers only add messages, and a new message wakes the saga again, so the state
    // after the record is new enough.
    let { state: conversation } = await this.conversations.load(conversationId, pass.seenUpTo);
    for (let turn = 0; turn < ATTEMPTS_PER_PASS_MAX && !pass.signal.aborted; turn++) {
      const now = this.clock.now();
      const message = conversation === null ? undefined : nextMessage(conversation, now);
      if (conversation === null || message === undefined) return null;
      // M5
      if (isPostponed(message, now) && message.retryAt !== null) return new Date(message.retryAt);
      pass.setAccount(conversation.accountId);
      if (conversation.tokenless && !(await this.waitForTokenWebhooks(conversation, pass)))
        return new Date(this.clock.now().getTime() + TOKENLESS_RETRY_MS);
      conversation = await this.deliver(conversationId, pass, conversation, message);
    }
    return new Date();
  }

  /** M4: waits until no webhook with the agent's token is due. Returns false if that takes too long. */
  private async waitForTokenWebhooks({ agentId }: Conversation, { signal, withoutSlot }: SagaPass): Promise<boolean> {
    if (this.waitingTokenless >= TOKENLESS_WAITS_MAX) return false;
    this.waitingTokenless += 1;
    try {
      return await withoutSlot(() => this.conversations.waitUntilNothingIsDue(webhookConversation(agentId), TOKENLESS_WAIT_MS, signal));
    } finally {
      this.waitingTokenless -= 1;
    }
  }

  /** Delivers the message, and returns the conversation with the record of the outcome, or with the message postponed. */
  private async deliver(
    conversationId: string,
    pass: SagaPass,
    conversation: Conversation,
    message: PendingMessage,
  ): Promise<ConversationState> {
    const { signal, assertLease } = pass;
    using memory = this.delivery.memoryFor(conversation);
    const outcome = await pass.withoutSlot(() =>
      this.delivery.deliver({ conversationId, conversation, message, memory, signal, assertLease }),
    );
    // M3
    if (outcome.kind !== 'replied') assertLease();
    sagaStep(this.name, conversationId, outcome.kind === 'deferred' ? 'deferred' : 'delivered');
    // M6
    if (outcome.kind === 'deferred') return withPostponed(conversation, message.id, new Date(this.clock.now().getTime() + DEFERRAL_MS));
    const command = await this.recordOf(conversation.agentId, message, outcome);
    const context = systemContext('messages', conversation.accountId, message.id);
    // M2
    const { state } = await this.conversations.execute(conversationId, command, context, {
      eventId: (event) => uuidv5(`${conversationId}:${message.id}:${event.type}:${attemptOf(message)}`, RECORD_NAMESPACE),
    });
    sagaStep(this.name, conversationId, 'recorded');
    return state;
  }

  private async recordOf(
    agentId: string,
    message: PendingMessage,
    outcome: Exclude<DeliveryOutcome, { kind: 'deferred' }>,
  ): Promise<ConversationCommand> {
    const messageId = message.id;
    switch (outcome.kind) {
      case 'replied': {
        const reply = await this.conversations.seal(agentId, messageId, 'reply', outcome.response);
        return { type: 'RecordReply', messageId, reply, openTask: outcome.openTask };
      }
      case 'unreachable':
        return { type: 'RecordFailedAttempt', messageId, code: outcome.code, reason: outcome.reason };
      case 'given_up':
        return { type: 'RecordDeadLetter', messageId, code: outcome.code, reason: outcome.reason };
    }
  }
}

/** Returns the number of the attempt, which is a different one after a request for another delivery. */
function attemptOf({ attempts, requeuedAt }: PendingMessage): string {
  return requeuedAt === null ? String(attempts) : `${attempts}:${requeuedAt}`;
}
