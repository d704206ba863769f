import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance } from 'fastify';

import { Metrics } from '../../kernel/observability/metrics.ts';
import { onRequestEnd } from '../requests/request-ends.ts';
import { routeOf } from '../requests/request-route.ts';

const BUCKETS_SECONDS = [0.005, 0.02, 0.1, 0.5, 2.5, 10, 60, 120];

/** Counts requests and their durations by method, route and class of status, or `aborted`: few enough to be scraped every second. */
@Injectable()
export class HttpMetrics implements OnModuleInit {
  constructor(
    private readonly host: HttpAdapterHost,
    private readonly metrics: Metrics,
  ) {}

  onModuleInit(): void {
    const durations = this.metrics.histogram(
      'mooring_http_request_duration_seconds',
      'Time from a request to the end of its answer.',
      ['method', 'route', 'status'],
      BUCKETS_SECONDS,
    );
    onRequestEnd(this.host.httpAdapter.getInstance<FastifyInstance>(), ({ request, status, isAborted, ms }) => {
      const kind = isAborted || status === null ? 'aborted' : `${Math.floor(status / 100)}xx`;
      durations.observe({ method: request.method, route: routeOf(request), status: kind }, ms / 1_000);
    });
  }
}
