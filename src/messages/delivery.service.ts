import { Injectable } from '@nestjs/common';
import { WakeGate, type Agent } from '../agents/index.ts';
import { AgentAnsweredError, AgentUnreachable, protocolFor, ReplyTimeout } from '../platform/agent-protocol/agent-protocol.ts';
import { Keyring } from '../platform/crypto/sealed.ts';
import { systemContext } from '../platform/http/caller.ts';
import { Refusal } from '../platform/refusal.ts';
import { ContainerGone, ContainerRuntime, RuntimeRefused } from '../platform/runtime/runtime.ts';
import { Templates } from '../templates/index.ts';
import { Config } from '../config.ts';
import { TEXT_BYTES_MAX, textContext, type Conversation, type PendingMessage } from './conversation.decider.ts';
import type { DeadLetterCode } from './conversation.events.ts';

/** What one attempt to deliver came to. */
export type DeliveryOutcome =
  | { kind: 'replied'; response: string }
  /** No answer, and another attempt may get one. */
  | { kind: 'unreachable'; reason: string }
  | { kind: 'given_up'; code: DeadLetterCode; reason: string };

/** One try to deliver one message. */
export interface Attempt {
  conversationId: string;
  conversation: Conversation;
  message: PendingMessage;
  signal: AbortSignal;
  /** Throws where another process may deliver the message by now. */
  mayAct: () => void;
}

/** Hands a message to a live agent, waking it first, and brings its reply. Stores nothing. */
@Injectable()
export class MessageDelivery {
  constructor(
    private readonly gate: WakeGate,
    private readonly runtime: ContainerRuntime,
    private readonly keyring: Keyring,
    private readonly templates: Templates,
    private readonly config: Config,
  ) {}

  /** One attempt, within `MOORING_REPLY_TIMEOUT`. Throws only where nothing is known of the outcome (no engine, no store). */
  async deliver(attempt: Attempt): Promise<DeliveryOutcome> {
    const { conversation, message, mayAct } = attempt;
    const { agentId, accountId } = conversation;
    const text = await this.keyring.open(agentId, textContext(message.id, 'text'), message.text);
    if (text === null) return { kind: 'given_up', code: 'agent_unavailable', reason: 'The agent was deleted.' };
    const context = systemContext('messages', accountId, message.id);
    mayAct();
    try {
      const { result } = await this.gate.awake(agentId, accountId, message.channel, context, (agent) => this.#hand(attempt, text, agent));
      return result;
    } catch (error) {
      if (error instanceof Refusal && (error.code === 'agent_unavailable' || error.code === 'agent_not_found'))
        return { kind: 'given_up', code: 'agent_unavailable', reason: error.message };
      throw error;
    }
  }

  async #hand(attempt: Attempt, text: string, agent: Agent): Promise<DeliveryOutcome> {
    const { conversationId, conversation, message, signal } = attempt;
    const template = agent.release?.templateId ? this.templates.get(agent.release.templateId) : undefined;
    const protocol = template?.protocol ?? { name: 'mooring' as const };
    const history = protocol.name === 'openai' ? await this.#history(conversation) : [];
    try {
      const address = await this.#address(conversation.agentId, agent.generation, template?.port ?? 8080);
      attempt.mayAct();
      const { response } = await protocolFor(protocol.name).deliver({
        ...address,
        message: { id: message.id, channel: message.channel, conversationId, text },
        history,
        protocol,
        timeoutMs: this.config.replyTimeoutSeconds * 1000,
        signal,
      });
      if (Buffer.byteLength(response) > TEXT_BYTES_MAX)
        return { kind: 'given_up', code: 'agent_failed', reason: `The reply was longer than ${TEXT_BYTES_MAX} bytes.` };
      return { kind: 'replied', response };
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #address(agentId: string, generation: number, port: number): Promise<{ host: string; port: number }> {
    try {
      return await this.runtime.address({ agentId, generation }, port);
    } catch (error) {
      if (error instanceof RuntimeRefused) throw new AgentUnreachable('its container is not running');
      throw error;
    }
  }

  async #history(conversation: Conversation): Promise<{ role: 'user' | 'assistant'; text: string }[]> {
    const turns = await Promise.all(
      conversation.exchanges.map(async ({ messageId, text, reply }) => [
        { role: 'user' as const, text: await this.keyring.open(conversation.agentId, textContext(messageId, 'text'), text) },
        { role: 'assistant' as const, text: await this.keyring.open(conversation.agentId, textContext(messageId, 'reply'), reply) },
      ]),
    );
    return turns.flat().flatMap(({ role, text }) => (text === null ? [] : [{ role, text }]));
  }
}

function outcomeOf(error: unknown): DeliveryOutcome {
  if (error instanceof AgentUnreachable || error instanceof ContainerGone)
    return { kind: 'unreachable', reason: 'The agent did not answer.' };
  if (error instanceof ReplyTimeout) return { kind: 'given_up', code: 'reply_timeout', reason: 'The agent did not reply in time.' };
  if (error instanceof AgentAnsweredError) return { kind: 'given_up', code: 'agent_failed', reason: error.message };
  throw error;
}
