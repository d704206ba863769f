import { Injectable, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { DurableSagas } from './durable-sagas.ts';
import type { KeyedQueueStats } from './keyed-queue.ts';

/**
 * The number of accounts that are exported, by rank instead of id, since labels must be from closed sets. `GET /api/admin/work` names the
 * accounts.
 */
const RANKS = 5;

/**
 * Exports as metrics how much work the sagas of this process have, how long it has waited, and how much of it the busiest accounts have.
 */
@Injectable()
export class SagaMetrics implements OnModuleInit {
  constructor(
    private readonly sagas: DurableSagas,
    @Optional() private readonly metrics?: Metrics,
  ) {}

  onModuleInit(): void {
    this.gauge('mooring_saga_queued_signals', 'Keys with news that wait for a slot.', ({ queued }) => queued.signal);
    this.gauge('mooring_saga_queued_reminders', 'Keys without news that wait to be looked at again.', ({ queued }) => queued.reminder);
    this.gauge('mooring_saga_working', 'Passes that hold a slot.', ({ working }) => working);
    this.gauge('mooring_saga_aside', 'Passes that wait for a pull, a start or a reply, without a slot.', ({ aside }) => aside);
    this.gauge('mooring_saga_retrying', 'Keys that failed and wait for their retry.', ({ retrying }) => retrying);
    this.gauge('mooring_saga_dropped', 'Wakes dropped since the start because too many keys are known.', ({ dropped }) => dropped);
    this.gauge(
      'mooring_saga_oldest_wait_seconds',
      'How long the work that waits longest for a slot has waited.',
      ({ oldestWaitMs }) => oldestWaitMs / 1_000,
    );
    this.metrics?.gauge('mooring_saga_shards', 'Of the 64 shards of the keys, how many this replica holds.', () => this.sagas.shardCount);
    this.metrics?.gauge(
      'mooring_saga_account_keys',
      'Keys of the account that has the most of all sagas together (rank 1), of the one after it, and so on.',
      () => new Map(this.keysByRank().map((keys, index) => [String(index + 1), keys])),
      'rank',
    );
  }

  private gauge(name: string, help: string, valueOf: (stats: KeyedQueueStats) => number): void {
    this.metrics?.gauge(
      name,
      help,
      () => new Map(Object.entries(this.sagas.stats()).map(([saga, stats]) => [saga, valueOf(stats)])),
      'saga',
    );
  }

  private keysByRank(): number[] {
    const byAccount = new Map<string | null, number>();
    for (const { topAccounts } of Object.values(this.sagas.stats()))
      for (const { account, keys } of topAccounts) byAccount.set(account, (byAccount.get(account) ?? 0) + keys);
    return [...byAccount.values()].toSorted((a, b) => b - a).slice(0, RANKS);
  }
}
