import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { Injectable, type OnApplicationShutdown, type OnModuleInit, Optional } from '@nestjs/common';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { APPEND_CHANNEL, type AppendTime } from './append-times.ts';

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1, 5];

/** Reports at `/metrics` how long appends to the log take. */
@Injectable()
export class AppendMetrics implements OnModuleInit, OnApplicationShutdown {
  private stop = () => {};

  constructor(@Optional() private readonly metrics?: Metrics) {}

  onModuleInit(): void {
    const durations = this.metrics?.histogram(
      'mooring_append_duration_seconds',
      'Time from an append to its outcome, its wait for the group commit included.',
      ['class'],
      BUCKETS_SECONDS,
    );
    if (durations === undefined) return;
    const observe = (told: unknown) => {
      const { eventClass, seconds } = told as AppendTime;
      durations.observe({ class: eventClass }, seconds);
    };
    subscribe(APPEND_CHANNEL, observe);
    this.stop = () => void unsubscribe(APPEND_CHANNEL, observe);
  }

  onApplicationShutdown(): void {
    this.stop();
  }
}
