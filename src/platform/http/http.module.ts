import { Global, Module } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';

import { Gate } from './gate.ts';
import { HealthController } from './health.controller.ts';
import { HttpMetrics } from './http-metrics.ts';
import { IdempotencyStore } from './idempotency-store.ts';
import { OpenRequests } from './open-requests.ts';
import { Metrics } from '../observability/metrics.ts';
import { Positions } from './positions.ts';
import { ProblemFilter } from './problem.filter.ts';
import { LoginLimiter } from './rate-limit.ts';
import { ReadinessChecks } from './readiness.service.ts';
import { RouteTable } from './route-table.ts';
import { createValidationPipe } from './validation.ts';

/**
 * The parts that apply to all routes. The application provides the `CredentialVerifier`. There is no interceptor and no guard for all
 * routes, since the framework would wrap each response in observables for them.
 */
@Global()
@Module({
  controllers: [HealthController],
  providers: [
    Gate,
    IdempotencyStore,
    HttpMetrics,
    LoginLimiter,
    Metrics,
    OpenRequests,
    Positions,
    ReadinessChecks,
    RouteTable,
    { provide: APP_FILTER, useClass: ProblemFilter },
    { provide: APP_PIPE, useFactory: createValidationPipe },
  ],
  exports: [IdempotencyStore, LoginLimiter, Metrics, OpenRequests],
})
export class HttpModule {}
