import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

import { routeOf } from './request-route.ts';

/** What `/metrics` tells. Labels are from closed sets: never an id, never a caller's text. */
@Injectable()
export class Metrics implements OnModuleInit {
  readonly registry = new Registry();
  private readonly durations: Histogram;

  constructor(private readonly host: HttpAdapterHost) {
    collectDefaultMetrics({ register: this.registry });
    this.durations = new Histogram({
      name: 'mooring_http_request_duration_seconds',
      help: 'Time from a request to the end of its answer.',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30, 120],
      registers: [this.registry],
    });
  }

  onModuleInit(): void {
    this.host.httpAdapter.getInstance<FastifyInstance>().addHook('onResponse', (request, reply, done) => {
      this.durations.observe(
        { method: request.method, route: routeOf(request), status: String(reply.statusCode) },
        reply.elapsedTime / 1_000,
      );
      done();
    });
  }

  /** Adds a gauge that is read whenever somebody looks. `read` answers one value, or one for each value of `label`. */
  gauge(name: string, help: string, read: () => Promise<number | Map<string, number>>, label = 'name'): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect: async () => {
        const value = await read();
        gauge.reset();
        if (typeof value === 'number') gauge.set(value);
        else for (const [key, each] of value) gauge.set({ [label]: key }, each);
      },
    });
  }
}
