import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { v5 as uuidv5 } from 'uuid';

import { FindDelivery } from '../messages/index.ts';
import { MessageIntake } from '../messages/services.ts';
import { calledUrl, senderHeaders } from '../../agent-protocol/sender-headers.ts';
import type { Caller } from '../../kernel/context/caller.ts';
import type { CommandContext } from '../../kernel/context/command-context.ts';
import { newId } from '../../kernel/ids.ts';
import { deliveryIdOf } from './delivery-ids.ts';

export interface ReceivedWebhook {
  context: CommandContext;
  /** The sender, as the guard identified it. */
  caller: Caller;
  headers: Record<string, string | string[] | undefined>;
  /** The address that the sender called. */
  url: string;
  body: Buffer;
  /** The same for every attempt under one `Idempotency-Key`; null without a key. */
  seed: string | null;
}

/** Accepts webhooks. */
@Injectable()
export class Webhooks {
  constructor(
    private readonly intake: MessageIntake,
    private readonly queries: QueryBus,
  ) {}

  /** Stores the webhook and returns the id of its message. A repeat of the same delivery gets the same id. Throws `rate_limited`. */
  async accept({ context, caller, headers, url, body, seed }: ReceivedWebhook): Promise<string> {
    const { id: agentId, accountId, webhook } = caller;
    if (webhook === undefined) throw new Error('the caller is no sender of webhooks');
    const deliveryId = deliveryIdOf(headers, body);
    // The id depends on the sender and its token, so that a sender without the token can't suppress another sender's delivery.
    const repeated = deliveryId === null ? null : uuidv5(`${webhook.hasToken ? 'token' : webhook.budget} ${deliveryId}`, agentId);
    if (repeated !== null && (await this.queries.execute(new FindDelivery(repeated))) !== null) return repeated;
    const messageId = repeated ?? (seed === null ? newId() : uuidv5('message', seed));
    const contentType = headers['content-type'];
    await this.intake.webhook({
      context,
      accountId,
      agentId,
      messageId,
      isRepeatable: repeated !== null || seed !== null,
      caller: webhook.budget,
      hasToken: webhook.hasToken,
      content: {
        channel: 'webhook',
        body,
        contentType: typeof contentType === 'string' ? contentType : null,
        headers: senderHeaders(headers),
        url: calledUrl(url),
      },
    });
    return messageId;
  }
}
