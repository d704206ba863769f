/*
 * Makes one attempt to deliver one message to an agent, and returns the outcome.
 *
 * It owns the order in which the attempts of this process start (lanes, slots, pauses after unusable answers) and the deadline of an
 * attempt. It does not own the order of messages and their retries (`MessagesSaga`), the waking of agents (`AgentWakes`), or the protocols
 * (agent-protocol/). It stores nothing.
 *
 * Invariants:
 * D1. Nothing is sent once the sender has stopped waiting, or once another process may deliver the message. Both are checked right before
 *     the message is sent.
 * D2. No text of a message is in memory while an attempt waits for a slot, for the agent or for the reply. The text is read from the log
 *     right before it is sent, and nothing here keeps a reference to it afterwards.
 * D3. The bytes of all messages and replies in flight are bounded, with a share for each account (`MemoryReservation`).
 * D4. An attempt that may have reached the agent is repeated only if the agent recognizes the repeat by the message id, so never for a
 *     chat.
 * D5. An agent whose answers can't be used gets its next messages after growing pauses, so that it does not keep the process busy.
 * D6. A message whose sender does not wait is not used up by a deployment, which may wait long for its place: it is deferred while that
 *     lasts, and no attempt is counted.
 */

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';

import { Injectable } from '@nestjs/common';

import { pause } from '../../../kernel/async/pause.ts';
import { type Agent, isBeingDeployed, publicPathOf } from '../../agents/index.ts';
import { AgentWakes } from '../../agents/services.ts';
import { Config } from '../../../kernel/config/config.ts';
import { needsHistory, protocolFor } from '../../../agent-protocol/protocols.ts';
import {
  AgentErrorResponse,
  AgentBrokeConnection,
  AgentUnreachable,
  ReplyTimeout,
  type AgentMessage,
  type AgentReply,
  type Deliver,
  type Exchange,
  type ProtocolSpec,
} from '../../../agent-protocol/protocol.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import { ContainerGone, RuntimeRefused, RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { TEXT_BYTES_MAX, type Conversation, type PendingMessage } from '../conversations/conversations.decider.ts';
import type { Channel, DeadLetterCode } from '../conversations/conversations.events.ts';
import type { MessageContent } from '../conversations/message-content.ts';
import { AgentEndpoints } from './agent-endpoints.service.ts';
import { DeliveryLanes } from './delivery-lanes.ts';
import { MemoryReservation } from './memory-reservation.ts';
import { ReplyReaders } from './reply-readers.ts';
import { HISTORY_BYTES_MAX, Threads } from '../conversations/threads.ts';

/** The outcome of one attempt to deliver. */
export type DeliveryOutcome =
  | { kind: 'replied'; response: string; openTask?: string | undefined }
  /** There was no reply, but another attempt may get one. The sender gets `code` if no attempt does. */
  | { kind: 'unreachable'; code: DeadLetterCode; reason: string }
  | { kind: 'given_up'; code: DeadLetterCode; reason: string }
  /** Nothing was sent, because the agent is being deployed. This was no attempt. */
  | { kind: 'deferred' };

/** One attempt to deliver one message. */
export interface Attempt {
  conversationId: string;
  conversation: Conversation;
  message: PendingMessage;
  memory: MemoryReservation;
  signal: AbortSignal;
  /** Throws if another process may deliver the message by now. */
  assertLease: () => void;
}

/** Delivers messages to agents, which it wakes first, and returns their replies. It stores nothing. */
@Injectable()
export class MessageDelivery {
  private readonly lanes: DeliveryLanes;

  constructor(
    private readonly wakes: AgentWakes,
    private readonly endpoints: AgentEndpoints,
    private readonly threads: Threads,
    private readonly readers: ReplyReaders,
    private readonly config: Config,
  ) {
    this.lanes = new DeliveryLanes(config);
  }

  /** Returns the memory budget for one attempt. */
  memoryFor(conversation: Conversation): MemoryReservation {
    return new MemoryReservation(this.lanes.of(conversation).texts, conversation.accountId);
  }

  /** Returns the numbers of deliveries other than webhooks without a token. See `DeliveryLane.stats`. */
  stats() {
    return this.lanes.trusted.stats();
  }

  /**
   * Makes one attempt: waits for a turn if the agent's answers can't be used, for a slot, and for the agent to be awake, then delivers the
   * message and waits for the reply, within `MOORING_REPLY_TIMEOUT`. A chat also waits here until its attempt is due. Throws only if the
   * outcome is unknown.
   */
  async deliver(attempt: Attempt): Promise<DeliveryOutcome> {
    const { conversation, message } = attempt;
    const { slots, backoff } = this.lanes.of(conversation);
    // D1: this signal ends every wait below when the sender stops waiting.
    using deadline = new ReplyDeadline(message.replyBy, attempt.signal);
    try {
      if (message.channel === 'chat') await waitUntil(message.retryAt, deadline.signal);
      // D5
      await backoff.waitForTurn(conversation.agentId, message.replyBy, deadline.signal);
      const share = { account: conversation.accountId, agent: conversation.agentId };
      const outcome = await slots.run(share, deadline.signal, () => this.deliverAwake({ ...attempt, signal: deadline.signal }));
      if (outcome.kind === 'replied') backoff.recordSuccess(conversation.agentId);
      return outcome;
    } catch (error) {
      if (isUnusable(error)) backoff.recordFailure(conversation.agentId);
      attempt.signal.throwIfAborted();
      if (deadline.isOver) return { kind: 'given_up', code: 'reply_timeout', reason: TIMEOUT_REASON };
      return outcomeOf(error, message.channel);
    }
  }

  private async deliverAwake(attempt: Attempt): Promise<DeliveryOutcome> {
    const { conversation, message, signal } = attempt;
    const { agentId, accountId } = conversation;
    attempt.assertLease();
    const context = systemContext('messages', accountId, message.id);
    const work = (agent: Agent) => this.deliverTo(attempt, agent);
    const { result } = await this.wakes.whileAwake({ sandboxId: agentId, accountId, trigger: message.channel, context, signal }, work);
    return result;
  }

  private async deliverTo(attempt: Attempt, agent: Agent): Promise<DeliveryOutcome> {
    const { conversation, message, memory, signal } = attempt;
    const { endpoint, protocol } = this.endpoints.of(conversation.agentId, agent);
    const exchange = { endpoint, timeoutMs: this.config.replyTimeoutSeconds * 1000, signal, memory };
    const ids = { messageId: message.id, conversationId: attempt.conversationId, openTask: conversation.openTask ?? undefined };
    const publicPath = publicPathOf(conversation.agentId);
    const deliver = await protocolFor(protocol.name).prepare({ ...exchange, ...ids, protocol, publicPath });
    memory.releaseReply();
    // D3
    await memory.reserveRequest(message.bytes + (needsHistory(protocol) ? HISTORY_BYTES_MAX : 0), signal);
    const reply = await this.send(attempt, { deliver, exchange, protocol });
    if (reply === null) return { kind: 'given_up', code: 'agent_unavailable', reason: 'The agent was deleted.' };
    if (Buffer.byteLength(reply.response) > TEXT_BYTES_MAX)
      return { kind: 'given_up', code: 'agent_failed', reason: `The reply was longer than ${TEXT_BYTES_MAX} bytes.` };
    return { kind: 'replied', response: reply.response, openTask: reply.openTask };
  }

  /**
   * Sends the message. Returns null if its text can't be decrypted any more.
   *
   * D2: the method is not `async`, because an async function would keep the text in memory while it waits for the reply.
   */
  private send(
    { conversationId, conversation: { agentId }, message, signal, assertLease }: Attempt,
    { deliver, exchange, protocol }: { deliver: Deliver; exchange: Exchange; protocol: ProtocolSpec },
  ): Promise<AgentReply | null> {
    const { id, channel } = message;
    const history = needsHistory(protocol) ? this.threads.history(conversationId, agentId) : Promise.resolve([]);
    const read = Promise.all([this.threads.contentOf(conversationId, agentId, message), history]);
    // Reading a large message and sending it both take long, so other work runs in between.
    return read.then(yieldToEventLoop).then(([content, turns]) => {
      if (content === null) return null;
      // D1
      signal.throwIfAborted();
      assertLease();
      const told = { id, channel, conversationId, ...contentFieldsOf(content) };
      return deliver({ ...exchange, message: told, history: turns, protocol, onText: this.readers.listenerOf(id) });
    });
  }
}

const TIMEOUT_REASON = 'The agent did not reply in time.';

/** A signal that aborts with the attempt, or when the sender of the message stops waiting. It must be disposed of. */
class ReplyDeadline implements Disposable {
  private readonly ending = new AbortController();
  private readonly timer: NodeJS.Timeout | undefined;
  private readonly onAbort = () => this.ending.abort(this.outer.reason);
  isOver = false;

  constructor(
    replyBy: string | null,
    private readonly outer: AbortSignal,
  ) {
    outer.addEventListener('abort', this.onAbort);
    if (outer.aborted) this.onAbort();
    if (replyBy === null) return;
    const leftMs = Date.parse(replyBy) - Date.now();
    if (leftMs <= 0) this.end();
    else this.timer = setTimeout(() => this.end(), leftMs);
  }

  get signal(): AbortSignal {
    return this.ending.signal;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.timer);
    this.outer.removeEventListener('abort', this.onAbort);
  }

  private end(): void {
    this.isOver = true;
    this.ending.abort(new Error(TIMEOUT_REASON));
  }
}

async function waitUntil(at: string | null, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const leftMs = at === null ? 0 : Date.parse(at) - Date.now();
  if (leftMs > 0) await pause(leftMs, signal);
  signal.throwIfAborted();
}

/** Returns whether no program gives such an answer on purpose. An error with an error status is not such an answer. */
function isUnusable(error: unknown): boolean {
  return error instanceof AgentBrokeConnection || (error instanceof AgentErrorResponse && error.status < 400);
}

/** Returns the content members of a message. A webhook's body is a string, exactly as it was sent, unless it is not UTF-8. */
function contentFieldsOf(
  content: MessageContent,
): Pick<AgentMessage, 'text' | 'payload' | 'contentType' | 'headers' | 'url' | 'attachments'> {
  switch (content.channel) {
    case 'chat':
      return { text: content.text };
    case 'attachment':
      return { text: content.text, attachments: content.attachments };
    case 'webhook': {
      const { body, contentType, headers, url } = content;
      const payload = typeof body === 'string' ? body : { base64: body.toString('base64') };
      return { text: '', payload, headers, ...(url === undefined ? {} : { url }), ...(contentType === null ? {} : { contentType }) };
    }
  }
}

function outcomeOf(error: unknown, channel: Channel): DeliveryOutcome {
  // D6
  if (channel !== 'chat' && isBeingDeployed(error)) return { kind: 'deferred' };
  if (error instanceof AgentUnreachable) return { kind: 'unreachable', code: 'agent_unavailable', reason: error.message };
  if (error instanceof ContainerGone || error instanceof RuntimeRefused)
    return { kind: 'unreachable', code: 'agent_unavailable', reason: 'The agent did not answer.' };
  if (error instanceof RuntimeUnavailable)
    return { kind: 'unreachable', code: 'runtime_unavailable', reason: 'The container engine does not answer.' };
  const ended = failureOf(error);
  return ended.isRepeatable && channel !== 'chat' ? { ...ended.end, kind: 'unreachable' } : { ...ended.end, kind: 'given_up' };
}

/**
 * Returns how an attempt ended that may have reached the agent.
 *
 * D4: a chat is then given up, because the agent may have begun the work. Any other message is delivered again if the next attempt may end
 * differently; the agent recognizes it by its id.
 */
function failureOf(error: unknown): { isRepeatable: boolean; end: { code: DeadLetterCode; reason: string } } {
  if (error instanceof ReplyTimeout) return { isRepeatable: true, end: { code: 'reply_timeout', reason: error.message } };
  if (error instanceof AgentErrorResponse) return { isRepeatable: error.retryable, end: { code: 'agent_failed', reason: error.message } };
  if (error instanceof AgentBrokeConnection) return { isRepeatable: true, end: { code: 'agent_failed', reason: error.message } };
  if (error instanceof ProblemError && (error.code === 'agent_unavailable' || error.code === 'agent_not_found'))
    return { isRepeatable: error.code === 'agent_unavailable', end: { code: 'agent_unavailable', reason: error.message } };
  throw error;
}
