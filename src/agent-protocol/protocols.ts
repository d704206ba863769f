import { A2aProtocol } from './a2a/a2a.protocol.ts';
import type { AgentProtocol, ProtocolSpec } from './protocol.ts';
import { LangGraphProtocol } from './langgraph/langgraph.protocol.ts';
import { MooringProtocol } from './mooring/mooring.protocol.ts';
import { OpenAiProtocol } from './openai/openai.protocol.ts';
import type { ProtocolName } from './protocol-names.ts';

const protocols: Record<ProtocolName, AgentProtocol> = {
  mooring: new MooringProtocol(),
  openai: new OpenAiProtocol(),
  langgraph: new LangGraphProtocol(),
  a2a: new A2aProtocol(),
};

/** Returns whether messages in that protocol have to contain the conversation so far, because the agent keeps no thread. */
export function needsHistory({ name, history }: ProtocolSpec): boolean {
  return name === 'openai' && history !== 'agent';
}

/** Returns the adapter of that protocol. */
export function protocolFor(name: ProtocolName): AgentProtocol {
  return protocols[name];
}
