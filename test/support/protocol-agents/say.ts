import { v7 as uuidv7 } from 'uuid';

import { protocolFor } from '../../../src/agent-protocol/protocols.ts';
import type { Delivery } from '../../../src/agent-protocol/protocol.ts';
import { endpointAt } from '../endpoint.ts';
import { unboundedMemory } from '../exchange-memory.ts';
import type { ProtocolAgent } from './protocol-agent.ts';

/** The timeout of an agent for its start and for each reply, in ms. */
const AGENT_TIMEOUT_MS = 60_000;

/** Sends the agent a message of a conversation by its protocol, and returns the reply. */
export async function sayTo(
  agent: ProtocolAgent,
  name: 'a2a' | 'langgraph',
  text: string,
  conversationId: string,
  { messageId = uuidv7(), ...given }: Partial<Delivery> & { messageId?: string } = {},
): Promise<string> {
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
  const deliver = await protocolFor(name).prepare({ ...delivery, messageId, conversationId });
  return (await deliver(delivery)).response;
}
