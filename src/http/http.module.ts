import { Global, Module } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';

import { AuthGuard } from './auth/auth-guard.ts';
import { HealthController } from './health/health.controller.ts';
import { HttpMetrics } from './server/http-metrics.ts';
import { IdempotencyStore } from './idempotency/idempotency-store.ts';
import { OpenRequests } from './auth/open-requests.ts';
import { Metrics } from '../kernel/observability/metrics.ts';
import { Positions } from './responses/positions.ts';
import { PostgresIdempotencyStore } from './idempotency/postgres-idempotency-store.ts';
import { ProblemsFilter } from './responses/problems.filter.ts';
import { LargeReads } from './limits/large-reads.ts';
import { OpenStreams } from './limits/open-streams.ts';
import { LoginLimiter } from './limits/login-limiter.ts';
import { OwnRoutes } from './server/own-routes.ts';
import { PacedRefusals } from './limits/paced-refusals.ts';
import { ReadinessChecks } from './health/readiness-checks.service.ts';
import { ResponseStreams } from './server/response-streams.ts';
import { RouteTable } from './auth/route-table.ts';
import { Identification } from './auth/identification.ts';
import { Tickets } from './auth/tickets.ts';
import { UnsentResponses } from './limits/unsent-responses.ts';
import { WebSockets } from './server/web-sockets.ts';
import { createValidationPipe } from './requests/validation.ts';

/**
 * The parts that apply to all routes. The application provides the `CredentialVerifier`. No interceptor or guard is global, because the
 * framework would wrap each response in observables for it.
 */
@Global()
@Module({
  controllers: [HealthController],
  providers: [
    AuthGuard,
    { provide: IdempotencyStore, useClass: PostgresIdempotencyStore },
    HttpMetrics,
    Identification,
    LargeReads,
    LoginLimiter,
    Metrics,
    OpenRequests,
    OpenStreams,
    OwnRoutes,
    PacedRefusals,
    Positions,
    ReadinessChecks,
    ResponseStreams,
    RouteTable,
    Tickets,
    UnsentResponses,
    WebSockets,
    { provide: APP_FILTER, useClass: ProblemsFilter },
    { provide: APP_PIPE, useFactory: createValidationPipe },
  ],
  exports: [
    IdempotencyStore,
    LargeReads,
    LoginLimiter,
    Metrics,
    OpenRequests,
    OpenStreams,
    OwnRoutes,
    ResponseStreams,
    Tickets,
    WebSockets,
  ],
})
export class HttpModule {}
