import { Injectable, Logger } from '@nestjs/common';

import { categoryOf, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { LogFollower } from '../../eventsourcing/log/log-follower.ts';
import { OpenRequests } from '../../http/auth/open-requests.ts';
import { Sessions } from './sessions.ts';

/** Ends the requests and streams of a signed-out session on every replica, as soon as its event is read from the log. */
@Injectable()
export class SessionEnds {
  private readonly logger = new Logger('SessionEnds');

  constructor(
    private readonly requests: OpenRequests,
    private readonly sessions: Sessions,
    follower: LogFollower,
  ) {
    follower.listen({ onEvents: (events) => events.forEach((event) => this.onEvent(event)), onGap: () => this.checkAll() });
  }

  private onEvent({ stream, type, data }: StoredEvent): void {
    if (categoryOf(stream) === 'account' && type === 'SignedOut') this.requests.end(data.session_id as string);
  }

  /** Checks all sessions with open requests, because events that ended a session may have been missed in a gap. */
  checkAll(): void {
    const open = this.requests.callers('session');
    for (const accountId of new Set(open.map((caller) => caller.accountId)))
      this.sessions.liveIds(accountId).then(
        (live) => {
          for (const { sessionId } of open.filter((caller) => caller.accountId === accountId))
            if (sessionId !== undefined && !live.has(sessionId)) this.requests.end(sessionId);
        },
        (error: unknown) => this.logger.warn({ msg: 'it is not known which sessions have ended', account_id: accountId, err: error }),
      );
  }
}
