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
const ATTEMPTS_OF_PASS = 100;
/**
 * The time in milliseconds for which a webhook without a token waits for any outcome among those with one, and the wait before it looks
 * again. An attempt takes no longer, as a rule.
 */
const STANDS_BACK_MS = 120_000;
const STANDS_BACK_AGAIN_MS = 1_000;
/** The most conversations of webhooks without a token that wait so in one process; others look again. */
const STANDING_BACK_MAX = 1_000;

/**
 * Delivers accepted messages: in order within a conversation, concurrently across conversations. A key is therefore one conversation; the
 * webhooks of an agent with its token are one, and those without are another, which stands back while one of the first is to be delivered.
 * Thousands of passes may wait aside (for their time, a place, the agent, the reply); the slots are for loads and records.
 */
@Injectable()
export class MessagesSaga implements Saga, OnModuleInit {
  readonly name = 'messages';
  readonly filter = { eventClass: 'core' as const, categories: ['conversation'], types: ['MessageAccepted', 'MessageRequeued'] };
  readonly concurrency = 32;
  private standingBack = 0;

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
    // Every turn uses up at least one attempt. A message that arrives meanwhile wakes the saga again, and other writers add nothing but
    // messages, so the state after the record is enough.
    let { state: conversation } = await this.conversations.load(conversationId, pass.seenUpTo);
    for (let turn = 0; turn < ATTEMPTS_OF_PASS && !pass.signal.aborted; turn++) {
      const now = this.clock.now();
      const message = conversation === null ? undefined : nextMessage(conversation, now);
      if (conversation === null || message === undefined) return null;
      // The deadline is stored, so a message that waits for its next attempt costs nothing meanwhile and survives a crash.
      if (isPostponed(message, now) && message.retryAt !== null) return new Date(message.retryAt);
      pass.setAccount(conversation.accountId);
      if (conversation.tokenless && !(await this.standBack(conversation, pass)))
        return new Date(this.clock.now().getTime() + STANDS_BACK_AGAIN_MS);
      conversation = await this.deliver(conversationId, pass, conversation, message);
    }
    return new Date();
  }

  /** Waits until no webhook with the agent's token is to be delivered. Returns false if that takes too long. */
  private async standBack({ agentId }: Conversation, { signal, withoutSlot }: SagaPass): Promise<boolean> {
    if (this.standingBack >= STANDING_BACK_MAX) return false;
    this.standingBack += 1;
    try {
      return await withoutSlot(() => this.conversations.untilNothingIsDue(webhookConversation(agentId), STANDS_BACK_MS, signal));
    } finally {
      this.standingBack -= 1;
    }
  }

  /** Delivers the message, and returns the conversation with the record of the outcome. */
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
    // A reply counts, however late it arrives. Only the process that may deliver now may record that there was none.
    if (outcome.kind !== 'replied') assertLease();
    sagaStep(this.name, conversationId, 'delivered');
    const command = await this.record(conversation.agentId, message, outcome);
    const context = systemContext('messages', conversation.accountId, message.id);
    const { state } = await this.conversations.execute(conversationId, command, context, {
      eventId: (event) => uuidv5(`${conversationId}:${message.id}:${event.type}:${attemptOf(message)}`, RECORD_NAMESPACE),
    });
    sagaStep(this.name, conversationId, 'recorded');
    return state;
  }

  private async record(agentId: string, message: PendingMessage, outcome: DeliveryOutcome): Promise<ConversationCommand> {
    const messageId = message.id;
    switch (outcome.kind) {
      case 'replied': {
        const reply = await this.conversations.seal(agentId, messageId, 'reply', outcome.response);
        return { type: 'RecordReply', messageId, reply };
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
