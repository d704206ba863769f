import { randomUUID } from 'node:crypto';

import type { AgentEndpoint } from '../../src/agent-protocol/agent-endpoint.ts';

/** Returns an endpoint with that address, without pooled connections. */
export function endpointAt({ host = '127.0.0.1', port }: { host?: string; port: number }): AgentEndpoint {
  return { key: randomUUID(), agentId: randomUUID(), accountId: 'account', locate: () => Promise.resolve({ host, port }) };
}
