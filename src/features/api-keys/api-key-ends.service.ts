import { Injectable, Logger } from '@nestjs/common';

import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { categoryOf, idOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import { OpenRequests } from '../../http/auth/open-requests.ts';
import { apiKeyDecider } from './api-keys.decider.ts';

/** Ends the requests and streams of a revoked or expired key on every replica, as soon as its event is read from the log. */
@Injectable()
export class ApiKeyEnds {
  private readonly logger = new Logger('ApiKeyEnds');

  constructor(
    private readonly requests: OpenRequests,
    private readonly aggregates: Aggregates,
    follower: LogFollower,
  ) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: () => this.checkAll() });
  }

  private onEvent({ stream, type }: StoredEvent): void {
    if (categoryOf(stream) === 'apiKey' && (type === 'ApiKeyRevoked' || type === 'ApiKeyExpired')) this.requests.end(idOf(stream));
  }

  /** Checks all keys with open requests, because events that ended a key may have been missed in a gap. */
  checkAll(): void {
    for (const { id: keyId } of this.requests.callers('api_key'))
      this.aggregates.load(`apiKey-${keyId}`, apiKeyDecider).then(
        ({ state }) => state?.revoked === true && this.requests.end(keyId),
        (error: unknown) => this.logger.warn({ msg: 'it is not known whether a key has ended', key_id: keyId, err: error }),
      );
  }
}
