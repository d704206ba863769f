import { Global, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';

import { AccessGuard } from './guard.ts';
import { HealthController } from './health.controller.ts';
import { HttpMetrics } from './http-metrics.ts';
import { IdempotencyStore } from './idempotency-store.ts';
import { Idempotency } from './idempotency.ts';
import { Metrics } from '../observability/metrics.ts';
import { Positions } from './positions.ts';
import { ProblemFilter } from './problem.filter.ts';
import { LoginLimiter } from './rate-limit.ts';
import { ReadinessChecks } from './readiness.service.ts';
import { RouteTable } from './route-table.ts';
import { createValidationPipe } from './validation.ts';

/**
 * The edge: everything that holds for all routes. It asks the `CredentialVerifier` who calls; the application provides that.
 * Interceptors run in this order, so that a kept answer bears the position of its write.
 */
@Global()
@Module({
  controllers: [HealthController],
  providers: [
    IdempotencyStore,
    HttpMetrics,
    LoginLimiter,
    Metrics,
    ReadinessChecks,
    RouteTable,
    { provide: APP_FILTER, useClass: ProblemFilter },
    { provide: APP_GUARD, useClass: AccessGuard },
    { provide: APP_PIPE, useFactory: createValidationPipe },
    { provide: APP_INTERCEPTOR, useClass: Idempotency },
    { provide: APP_INTERCEPTOR, useClass: Positions },
  ],
  exports: [LoginLimiter, Metrics],
})
export class HttpModule {}
