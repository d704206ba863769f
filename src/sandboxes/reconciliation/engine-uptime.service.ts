import { Injectable } from '@nestjs/common';

import { Clock } from '../../kernel/clock.ts';
import { Database } from '../../postgres/database/database.ts';
import { lastSignOfEnded } from '../../postgres/leases/ended-replicas.ts';
import { ContainerRuntime, type RuntimeEvent } from '../../runtime/runtime.ts';

/** Follows the engine, and knows until when it was up before it became unavailable. */
@Injectable()
export class EngineUptime {
  private followedSince: Date | null = null;
  /** The last time during which this process had lost an engine that it had followed. */
  private gap: { from: Date; to: Date } | null = null;

  constructor(
    private readonly runtime: ContainerRuntime,
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Yields the events of `ContainerRuntime.events`. */
  async *events(signal: AbortSignal): AsyncGenerator<RuntimeEvent> {
    for await (const event of this.runtime.events(signal)) {
      const now = this.clock.now();
      this.followedSince ??= now;
      if (event.kind === 'lost' && event.since !== undefined) this.gap = { from: event.since, to: now };
      yield event;
    }
  }

  /**
   * Returns the latest time, not after the given one, at which the engine is known to have been up: as followed by this process, or else as
   * long as the last replica that has ended was alive. Times of which nothing is known count as up.
   */
  async lastUp(at: Date): Promise<Date> {
    const { followedSince, gap } = this;
    if (followedSince !== null && followedSince <= at) return gap !== null && gap.from <= at && at <= gap.to ? gap.from : at;
    return (await lastSignOfEnded(this.database, at)) ?? at;
  }
}
