import type { ExchangeRoom } from '../../src/platform/agent-protocol/agent-protocol.ts';

/** Room without bounds. */
export const unboundedRoom: ExchangeRoom = { sent: () => {}, forReply: () => Promise.resolve() };
