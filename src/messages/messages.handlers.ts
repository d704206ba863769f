import { Command, CommandHandler, Query, QueryHandler, type ICommandHandler, type IQueryHandler } from '@nestjs/cqrs';
import { v7 as uuidv7 } from 'uuid';
import { agentDecider, owned, transitionDeadlines } from '../agents/index.ts';
import { Config } from '../config.ts';
import { Keyring } from '../platform/crypto/sealed.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { EventStore, type StoredEvent } from '../platform/event-store/event-store.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';
import type { CommandContext } from '../platform/http/caller.ts';
import { Refusal } from '../platform/refusal.ts';
import { conversationDecider, TEXT_BYTES_MAX, textContext } from './conversation.decider.ts';
import type { ConversationEvent } from './conversation.events.ts';

export interface Reply {
  response: string;
  conversationId: string;
  messageId: string;
  /** Whether the agent had to be woken for it. */
  woken: boolean;
}

/** Sends the agent a message and waits for its reply. */
export class SendChatMessage extends Command<Reply> {
  constructor(
    readonly context: CommandContext,
    readonly accountId: string,
    readonly agentId: string,
    readonly text: string,
    /** Null begins a conversation. */
    readonly conversationId: string | null,
  ) {
    super();
  }
}

/** What waiting for the reply may take beyond the agent's own time: a wake, and messages that were there before. */
const QUEUE_ALLOWANCE_MS = 5_000;

@CommandHandler(SendChatMessage)
export class SendChatMessageHandler implements ICommandHandler<SendChatMessage> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
    private readonly waits: EventWaits,
    private readonly config: Config,
  ) {}

  async execute(command: SendChatMessage): Promise<Reply> {
    const { context, accountId, agentId } = command;
    const conversationId = command.conversationId ?? uuidv7();
    const messageId = uuidv7();
    if (Buffer.byteLength(command.text) > TEXT_BYTES_MAX) throw textTooLong();
    if (command.conversationId !== null) await refuseUnknown(this.aggregates, accountId, agentId, conversationId);
    // Waking first, and without waiting for it: an agent that can't take a message refuses here, before anything is written.
    const wake = { type: 'WakeAgent' as const, accountId, trigger: 'chat', deadlineAt: transitionDeadlines(this.config).wake(new Date()) };
    const { before } = await this.aggregates.execute(`agent-${agentId}`, agentDecider, wake, context);
    const stream = `conversation-${conversationId}`;
    using outcomes = this.waits.watch(stream);
    const text = await this.keyring.seal(agentId, textContext(messageId, 'text'), command.text);
    const accept = { type: 'AcceptMessage' as const, agentId, accountId, messageId, channel: 'chat' as const, text };
    await this.aggregates.execute(stream, conversationDecider, { ...accept, begins: command.conversationId === null }, context);
    const outcome = await outcomes.next(
      (stored) => (settles(stored as unknown as ConversationEvent, messageId) ? stored : undefined),
      this.config.replyTimeoutSeconds * 1000 + QUEUE_ALLOWANCE_MS,
    );
    const response = await this.#responseOf(agentId, messageId, outcome);
    return { response, conversationId, messageId, woken: before?.status !== 'active' };
  }

  async #responseOf(agentId: string, messageId: string, outcome: StoredEvent | null): Promise<string> {
    const event = outcome as unknown as ConversationEvent | null;
    if (event?.type === 'MessageDelivered') {
      const response = await this.keyring.open(agentId, textContext(messageId, 'reply'), event.data.reply);
      if (response === null) throw new Refusal('agent_not_found', 'There is no such agent.');
      return response;
    }
    const members = { message_id: messageId };
    if (event?.type === 'MessageDeadLettered') throw new Refusal(event.data.code, event.data.reason, { members });
    throw new Refusal('reply_timeout', 'The agent did not reply in time; the message stays in its history.', { members });
  }
}

function textTooLong(): Refusal {
  const message = `must be at most ${TEXT_BYTES_MAX} bytes of UTF-8`;
  return new Refusal('invalid_request', 'The message is too long.', { errors: [{ field: 'message', message }] });
}

/** Throws `agent_not_found` or `conversation_not_found` where the account's agent has no such conversation. */
async function refuseUnknown(aggregates: Aggregates, accountId: string, agentId: string, conversationId: string): Promise<void> {
  owned((await aggregates.load(`agent-${agentId}`, agentDecider)).state, accountId);
  const { state: conversation } = await aggregates.load(`conversation-${conversationId}`, conversationDecider);
  if (conversation === null || conversation.agentId !== agentId)
    throw new Refusal('conversation_not_found', 'The agent has no such conversation.');
}

function settles(event: ConversationEvent, messageId: string): boolean {
  return (event.type === 'MessageDelivered' || event.type === 'MessageDeadLettered') && event.data.message_id === messageId;
}

export interface ThreadMessage {
  id: string;
  role: 'user' | 'agent';
  text: string;
  status: 'pending' | 'delivered' | 'dead_letter';
  at: string;
}

/** One conversation's messages in order, opened. */
export class ListMessages extends Query<ThreadMessage[]> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly conversationId: string,
  ) {
    super();
  }
}

/** Events of one conversation that an answer is made from, the latest. */
const THREAD_EVENTS_MAX = 2_000;

@QueryHandler(ListMessages)
export class ListMessagesHandler implements IQueryHandler<ListMessages> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly events: EventStore,
    private readonly keyring: Keyring,
  ) {}

  async execute({ accountId, agentId, conversationId }: ListMessages): Promise<ThreadMessage[]> {
    await refuseUnknown(this.aggregates, accountId, agentId, conversationId);
    const latest: StoredEvent[] = [];
    for await (const stored of this.events.readStream(`conversation-${conversationId}`, { backwards: true, limit: THREAD_EVENTS_MAX }))
      latest.unshift(stored);
    return this.#thread(agentId, latest);
  }

  async #thread(agentId: string, stored: StoredEvent[]): Promise<ThreadMessage[]> {
    const thread: ThreadMessage[] = [];
    for (const { at, ...rest } of stored) {
      const event = rest as unknown as ConversationEvent;
      if (event.type === 'ConversationStarted' || event.type === 'DeliveryFailed') continue;
      const id = event.data.message_id;
      const asked = thread.find((message) => message.id === id && message.role === 'user');
      if (event.type === 'MessageAccepted') {
        const text = (await this.keyring.open(agentId, textContext(id, 'text'), event.data.text)) ?? '';
        thread.push({ id, role: 'user', text, status: 'pending', at });
      } else if (event.type === 'MessageDeadLettered') {
        if (asked !== undefined) asked.status = 'dead_letter';
      } else {
        if (asked !== undefined) asked.status = 'delivered';
        const text = (await this.keyring.open(agentId, textContext(id, 'reply'), event.data.reply)) ?? '';
        thread.push({ id, role: 'agent', text, status: 'delivered', at });
      }
    }
    return thread;
  }
}
