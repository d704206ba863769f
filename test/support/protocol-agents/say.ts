import { v7 as uuidv7 } from 'uuid';

import { protocolFor } from '../../../src/agent-protocol/protocols.ts';
import type { AgentReply, Delivery } from '../../../src/agent-protocol/protocol.ts';
import { endpointAt } from '../endpoint.ts';
import { unboundedMemory } from '../exchange-memory.ts';
import type { ProtocolAgent } from './protocol-agent.ts';

/** The timeout of an agent for its start and for each reply, in ms. */
const AGENT_TIMEOUT_MS = 60_000;

type Given = Partial<Delivery> & { messageId?: string; openTask?: string | undefined };

/** Sends the agent a message of a conversation by its protocol, and returns the text of the reply. */
export async function sayTo(...told: Parameters<typeof replyOf>): Promise<string> {
  return (await replyOf(...told)).response;
}

/** Sends the agent a message of a conversation by its protocol, and returns the reply. */
export async function replyOf(
  agent: ProtocolAgent,
  name: 'a2a' | 'langgraph',
  text: string,
  conversationId: string,
  { messageId = uuidv7(), openTask, ...given }: Given = {},
): Promise<AgentReply> {
  const delivery: Delivery = {
    endpoint: endpointAt(agent),
    message: { id: messageId, channel: 'chat', conversationId, text },
    history: [],
    memory: unboundedMemory,
    protocol: { name },
    timeoutMs: AGENT_TIMEOUT_MS,
    signal: new AbortController().signal,
    ...given,
  };
  const deliver = await protocolFor(name).prepare({ ...delivery, messageId, conversationId, openTask, publicPath: '/a/agent' });
  return deliver(delivery);
}
