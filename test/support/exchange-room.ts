import type { ExchangeRoom } from '../../src/platform/agent-protocol/agent-protocol.ts';

/** An exchange room without bounds. */
export const unboundedRoom: ExchangeRoom = { sent: () => {}, forReply: () => Promise.resolve() };
