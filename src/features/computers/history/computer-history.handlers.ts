import { type IQueryHandler, QueryBus, QueryHandler } from '@nestjs/cqrs';

import { ListAudit, type AuditPage, type EventSelection, type HistoryItem } from '../../history/index.ts';
import type { Position } from '../../../eventsourcing/event-store/event-store.ts';
import { EventWaits } from '../../../eventsourcing/log/event-waits.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { ReadModels } from '../../../eventsourcing/projections/projection.ts';
import { computerSandbox } from '../../../sandboxes/index.ts';
import { Computers } from '../aggregate/computers.service.ts';
import { FollowComputerHistory, GetComputerHistory } from './computer-history.queries.ts';

/** The read model with the events of every computer, in whatever stream they are. */
const AUDIT = 'audit_entries';
/** The number of events that a follower reads in one query. */
const PAGE_SIZE = 200;
/** A follower reads after this time even if it was not notified, in ms. */
const POLL_EVERY_MS = 60_000;

@QueryHandler(GetComputerHistory)
export class GetComputerHistoryHandler implements IQueryHandler<GetComputerHistory> {
  constructor(
    private readonly computers: Computers,
    private readonly queries: QueryBus,
  ) {}

  async execute({ accountId, computerId, after, limit, selection }: GetComputerHistory): Promise<AuditPage> {
    await this.computers.loadWithDeleted(computerId, accountId);
    return this.queries.execute(auditOf(accountId, computerId, selection, after, limit));
  }
}

@QueryHandler(FollowComputerHistory)
export class FollowComputerHistoryHandler implements IQueryHandler<FollowComputerHistory> {
  constructor(
    private readonly computers: Computers,
    private readonly queries: QueryBus,
    private readonly waits: EventWaits,
    private readonly follower: LogFollower,
    private readonly readModels: ReadModels,
  ) {}

  async execute(follow: FollowComputerHistory): Promise<AsyncIterable<HistoryItem>> {
    await this.computers.loadWithDeleted(follow.computerId, follow.accountId);
    return this.items(follow);
  }

  private async *items({ accountId, computerId, after, selection, signal }: FollowComputerHistory): AsyncGenerator<HistoryItem> {
    using watch = this.waits.watch(...streamsOf(computerId));
    let position = after;
    while (!signal.aborted) {
      // No event follows the deletion, so the deletion is checked before the events are read.
      const isDeleted = (await this.computers.find(computerId)).state?.status === 'deleted';
      await this.readModels.waitFor(AUDIT, this.follower.position);
      for (let more = true; more && !signal.aborted;) {
        const page = await this.queries.execute(auditOf(accountId, computerId, selection, position, PAGE_SIZE));
        for (const item of page.items) {
          yield item;
          position = item.position;
        }
        more = page.next !== null;
      }
      if (isDeleted || signal.aborted) return;
      const waitedSince = performance.now();
      const heard = await watch.next(POLL_EVERY_MS, signal);
      // The wait ended without a notification because the service is stopping.
      if (heard === null && performance.now() - waitedSince < POLL_EVERY_MS) return;
    }
  }
}

function auditOf(accountId: string, computerId: string, selection: EventSelection, after: Position | null, limit: number): ListAudit {
  return new ListAudit({ ...selection, accountId, subjectId: computerId, newestFirst: false }, after, limit);
}

/** Returns the streams with events about the computer. Events of its seat are on the account's stream, which need not be awaited. */
function streamsOf(computerId: string): string[] {
  const sandboxId = computerSandbox(computerId);
  return [sandboxId, `exec-${sandboxId}`, `files-${sandboxId}`, `commands-${sandboxId}`, `viewer-${computerId}`];
}
