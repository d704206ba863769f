import { Command } from '@nestjs/cqrs';

import type { RequestContext } from '../../http/server/request-context.ts';

/**
 * Passes the handshake of a sender on to the agent, and the agent's response back. Returns false if the agent answers no handshakes. Throws
 * `unauthenticated` without the agent's token, `rate_limited`, `agent_unavailable`, `runtime_unavailable`, `agent_failed` and `reply_timeout`.
 */
export class PassHandshake extends Command<boolean> {
  constructor(
    readonly call: RequestContext,
    readonly body: Buffer,
  ) {
    super();
  }
}
