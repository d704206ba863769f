import { createHash, timingSafeEqual } from 'node:crypto';

import { Controller, Get, Header, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';

import { Public } from '../auth/access.ts';
import { HealthDto, ReadinessDto } from './health.dto.ts';
import { Metrics } from '../../kernel/observability/metrics.ts';
import { ReadinessChecks } from './readiness-checks.service.ts';
import { Config } from '../../kernel/config/config.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { version } from '../../kernel/version.ts';

@Controller()
export class HealthController {
  constructor(
    private readonly checks: ReadinessChecks,
    private readonly measured: Metrics,
    private readonly config: Config,
  ) {}

  /** Returns that the service responds. Callers on the same machine also get its version. */
  @Get('health')
  @Public()
  health(@Req() request: FastifyRequest): HealthDto {
    return { status: 'ok', runtime: 'fleet', ...(isLocal(request) ? { version } : {}) };
  }

  /**
   * Returns whether the dependencies of the service are available: 503 if the database or the event store is not. Callers on the same
   * machine, and those who send the metrics token, also get the details.
   */
  @Get('ready')
  @Public()
  @Header('cache-control', 'no-store')
  async ready(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<ReadinessDto> {
    const { status, dependencies } = await this.checks.latest();
    void reply.status(status === 'unavailable' ? 503 : 200);
    if (isLocal(request) || this.hasMetricsToken(request)) return { status, dependencies };
    // Other callers need not know what is missing here, such as an update of the engine.
    return { status, dependencies: dependencies.map(({ name, status: state, required }) => ({ name, status: state, required })) };
  }

  /** Returns Prometheus metrics. Depending on the configuration, only callers on this machine get them, or those with a token. */
  @Get('metrics')
  @Public()
  async metrics(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<string> {
    const { metricsLoopbackOnly, metricsToken } = this.config;
    if (metricsLoopbackOnly && !isLocal(request)) throw new ProblemError('not_found', 'There is nothing at this address.');
    if (metricsToken !== null && !this.hasMetricsToken(request))
      throw new ProblemError('unauthenticated', 'Send Authorization: Bearer and the token of MOORING_METRICS_TOKEN.');
    void reply.header('content-type', this.measured.contentType);
    return this.measured.text();
  }

  /** Returns whether the metrics token is configured and was sent. */
  private hasMetricsToken({ headers }: FastifyRequest): boolean {
    const { metricsToken } = this.config;
    return metricsToken !== null && isEqual(headers.authorization ?? '', `Bearer ${metricsToken}`);
  }
}

/** Returns whether the caller is on this machine, and not behind a proxy on it. */
function isLocal({ ip, headers, socket }: FastifyRequest): boolean {
  const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
  if (isForwarded && ip === socket.remoteAddress) return false;
  return ipaddr.isValid(ip) && ipaddr.process(ip).range() === 'loopback';
}

/** Compares in constant time. */
function isEqual(given: string, wanted: string): boolean {
  const hashOf = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hashOf(given), hashOf(wanted));
}
