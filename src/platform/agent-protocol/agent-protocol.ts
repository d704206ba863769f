import type { AgentProtocol, ProtocolName } from './delivery.ts';
import { MooringProtocol } from './mooring.protocol.ts';
import { OpenAiProtocol } from './openai.protocol.ts';

export * from './delivery.ts';
export { allowedHeaders } from './allowed-headers.ts';
export { ready, type HealthCheck } from './readiness.ts';

const protocols: Record<ProtocolName, AgentProtocol> = {
  mooring: new MooringProtocol(),
  openai: new OpenAiProtocol(),
};

/** Returns the adapter of that protocol. */
export function protocolFor(name: ProtocolName): AgentProtocol {
  return protocols[name];
}
