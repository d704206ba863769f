import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';

import { agentDecider, agentNotFound } from '../agents/index.ts';
import { Aggregates } from '../platform/event-store/aggregates.ts';
import { EventCatalogue } from '../platform/event-store/catalogue.ts';
import type { Json, JsonObject } from '../platform/event-store/event-definition.ts';
import { EventStore, type Actor, type StoredEvent } from '../platform/event-store/event-store.ts';
import { EventWaits } from '../platform/event-store/event-waits.ts';

/** One event as people are shown it. */
export interface HistoryItem {
  event_id: string;
  type: string;
  version: number;
  revision: number;
  position: string;
  at: string;
  actor: Actor;
  request_id: string | null;
  summary: string;
  data: JsonObject;
}

export interface HistoryPage {
  items: HistoryItem[];
  /** The last revision that was looked at where more may follow, else null. */
  next: number | null;
}

/** The agent's events, oldest first; also of an agent that is deleted. Throws `agent_not_found`. */
export class GetHistory extends Query<HistoryPage> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    /** Those that follow this revision; -1: from the first on. */
    readonly after: number,
    readonly limit: number,
    /** Only events of this type; null: all. */
    readonly type: string | null,
  ) {
    super();
  }
}

/** Events that are looked through for one page where a type is asked for. */
const SCAN_MAX = 10_000;

@QueryHandler(GetHistory)
export class GetHistoryHandler implements IQueryHandler<GetHistory> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
  ) {}

  async execute({ accountId, agentId, after, limit, type }: GetHistory): Promise<HistoryPage> {
    const stream = `agent-${agentId}`;
    await refuseStranger(this.aggregates, stream, accountId);
    const items: HistoryItem[] = [];
    let seen = after;
    const scanned = type === null ? limit + 1 : SCAN_MAX;
    for await (const event of this.store.readStream(stream, { from: after + 1, limit: scanned })) {
      if (items.length === limit) return { items, next: seen };
      if (type === null || event.type === type) items.push(historyItem(event, this.catalogue));
      seen = event.revision;
    }
    return { items, next: seen - after === scanned ? seen : null };
  }
}

/** The agent's events after a revision, and those that come, until the agent is gone or the signal aborts. Throws `agent_not_found`. */
export class FollowHistory extends Query<AsyncIterable<HistoryItem>> {
  constructor(
    readonly accountId: string,
    readonly agentId: string,
    readonly after: number,
    readonly type: string | null,
    readonly signal: AbortSignal,
  ) {
    super();
  }
}

/** How long (ms) a follower that hears nothing waits before it looks by itself. */
const LOOK_EVERY_MS = 60_000;

@QueryHandler(FollowHistory)
export class FollowHistoryHandler implements IQueryHandler<FollowHistory> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly store: EventStore,
    private readonly catalogue: EventCatalogue,
    private readonly waits: EventWaits,
  ) {}

  async execute(follow: FollowHistory): Promise<AsyncIterable<HistoryItem>> {
    await refuseStranger(this.aggregates, `agent-${follow.agentId}`, follow.accountId);
    return this.#items(follow);
  }

  async *#items({ agentId, after, type, signal }: FollowHistory): AsyncGenerator<HistoryItem> {
    const stream = `agent-${agentId}`;
    using watch = this.waits.watch(stream);
    let revision = after;
    while (!signal.aborted) {
      for await (const event of this.store.readStream(stream, { from: revision + 1 })) {
        revision = event.revision;
        if (type === null || event.type === type) yield historyItem(event, this.catalogue);
        if (event.type === 'AgentDeleted' || signal.aborted) return;
      }
      const waitedSince = performance.now();
      const heard = await watch.next(LOOK_EVERY_MS, signal);
      // Nothing heard, and the time is not over: the service is stopping.
      if (heard === null && performance.now() - waitedSince < LOOK_EVERY_MS) return;
    }
  }
}

async function refuseStranger(aggregates: Aggregates, stream: string, accountId: string): Promise<void> {
  const { state } = await aggregates.load(stream, agentDecider);
  if (state?.accountId !== accountId) throw agentNotFound();
}

function historyItem(event: StoredEvent, catalogue: EventCatalogue): HistoryItem {
  return {
    event_id: event.id,
    type: event.type,
    version: event.schemaVersion,
    revision: event.revision,
    position: event.position,
    at: event.at,
    actor: event.metadata.actor,
    request_id: event.metadata.request_id,
    summary: catalogue.summaryOf(event),
    data: masked(event.data) as JsonObject,
  };
}

/** What is sealed is shown as that something is there, and nothing more. */
export function masked(value: Json): Json {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== 'object' || value === null) return value;
  if (isSealed(value)) return '•'.repeat(8);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, masked(member)]));
}

function isSealed(value: JsonObject): boolean {
  return value.v === 1 && typeof value.key === 'number' && typeof value.iv === 'string' && typeof value.ct === 'string';
}
