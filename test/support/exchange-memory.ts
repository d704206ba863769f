import type { ExchangeMemory } from '../../src/agent-protocol/protocol.ts';

/** Exchange memory without bounds. */
export const unboundedMemory: ExchangeMemory = { releaseRequest: () => {}, reserveReply: () => Promise.resolve() };
