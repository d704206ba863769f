import { randomBytes } from 'node:crypto';

import { Injectable } from '@nestjs/common';
import { Webhook } from 'standardwebhooks';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { historyItem } from '../../history/index.ts';
import { sharesOf } from '../../../kernel/limits/account-counter.ts';
import { FairLimiter } from '../../../kernel/limits/fair-limiter.ts';
import { Clock } from '../../../kernel/clock.ts';
import { Keyring, type Sealed } from '../../../crypto/keyring.ts';
import { EventCatalogue } from '../../../eventsourcing/event-store/event-catalogue.ts';
import { EventStore } from '../../../eventsourcing/event-store/event-store.ts';
import { version } from '../../../kernel/version.ts';
import type { EventDelivery } from './event-deliveries.ts';
import { type PostResult, Targets } from './targets.ts';

/** The timeout of a request to a target, in ms. */
const ATTEMPT_TIMEOUT_MS = 15_000;
/** The number of requests that one process sends at once; an account may have an eighth of them. */
const REQUESTS = sharesOf(128, { account: 1 / 8 });
const SECRET_BYTES = 32;

/** The members of a subscription that are needed to send events to it. */
export interface Receiver {
  subscriptionId: string;
  accountId: string;
  url: Sealed;
  secret: Sealed;
}

/** Returns a new secret in the format of Standard Webhooks. */
export function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}

/** Returns the context that an encrypted member of a subscription is bound to. */
export function sealingContext(subscriptionId: string, member: 'url' | 'secret'): string {
  return `subscription ${subscriptionId} ${member}`;
}

/** Sends single events to subscribed addresses, signed according to Standard Webhooks. */
@Injectable()
export class EventSender {
  private readonly slots = new FairLimiter(REQUESTS);

  constructor(
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
    private readonly keyring: Keyring,
    private readonly targets: Targets,
    private readonly clock: Clock,
  ) {}

  /**
   * Makes one attempt, which `mayStart` can prevent by throwing right before it. Returns the result; null if the subscription's key was
   * destroyed meanwhile. Throws if the signal aborts before the attempt, or if the event can't be read.
   */
  send(receiver: Receiver, delivery: EventDelivery, signal: AbortSignal, mayStart: () => void): Promise<PostResult | null> {
    const { accountId: account, subscriptionId: agent } = receiver;
    return this.slots.run({ account, agent }, signal, async () => {
      const [url, secret] = await Promise.all([this.open(receiver, 'url'), this.open(receiver, 'secret')]);
      if (url === null || secret === null) return null;
      const body = await this.bodyOf(delivery);
      const now = this.clock.now();
      const headers = {
        'content-type': 'application/json',
        'user-agent': `Mooring/${version}`,
        'webhook-id': delivery.event_id,
        'webhook-timestamp': Math.floor(now.getTime() / 1_000).toString(),
        'webhook-signature': new Webhook(secret).sign(delivery.event_id, now, body),
      };
      mayStart();
      return this.targets.post(url, headers, body, AbortSignal.any([signal, timeoutSignal(ATTEMPT_TIMEOUT_MS)]));
    });
  }

  /** Returns the event as the audit shows it. */
  private async bodyOf({ position, event_id, agent_id }: EventDelivery): Promise<Buffer> {
    for await (const event of this.store.readAt([position])) {
      if (event.id !== event_id) break;
      const { stream, metadata } = event;
      const item = Object.assign(historyItem(event, this.catalogue), { account_id: metadata.account_id, agent_id, stream });
      return Buffer.from(JSON.stringify(item));
    }
    throw new Error(`the event ${event_id} is not at its position ${position}`);
  }

  private open({ subscriptionId, ...sealed }: Receiver, member: 'url' | 'secret'): Promise<string | null> {
    return this.keyring.open(subscriptionId, sealingContext(subscriptionId, member), sealed[member]);
  }
}
