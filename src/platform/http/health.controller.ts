import { createHash, timingSafeEqual } from 'node:crypto';

import { Controller, Get, Header, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';

import { Public } from './access.ts';
import { Health, Readiness } from './health.dto.ts';
import { Metrics } from '../observability/metrics.ts';
import { ReadinessChecks } from './readiness.service.ts';
import { Config } from '../../config.ts';
import { Refusal } from '../refusal.ts';
import { version } from '../version.ts';

@Controller()
export class HealthController {
  constructor(
    private readonly checks: ReadinessChecks,
    private readonly measured: Metrics,
    private readonly config: Config,
  ) {}

  /** Whether the service answers at all. Callers on the same machine are told its version. */
  @Get('health')
  @Public()
  health(@Req() request: FastifyRequest): Health {
    return { status: 'ok', runtime: 'fleet', ...(isLocal(request) ? { version } : {}) };
  }

  /** Whether what the service stands on is there: 503 where the database or the event store is away. */
  @Get('ready')
  @Public()
  @Header('cache-control', 'no-store')
  async ready(@Res({ passthrough: true }) reply: FastifyReply): Promise<Readiness> {
    const readiness = await this.checks.look();
    void reply.status(readiness.status === 'unavailable' ? 503 : 200);
    return readiness;
  }

  /** Prometheus. For callers on the same machine alone unless the configuration opens it; with its token where one is configured. */
  @Get('metrics')
  @Public()
  async metrics(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<string> {
    const { metricsLoopbackOnly, metricsToken } = this.config;
    if (metricsLoopbackOnly && !isLocal(request)) throw new Refusal('not_found', 'There is nothing at this address.');
    if (metricsToken !== null && !isEqual(request.headers.authorization ?? '', `Bearer ${metricsToken}`))
      throw new Refusal('unauthenticated', 'Send Authorization: Bearer and the token of MOORING_METRICS_TOKEN.');
    void reply.header('content-type', this.measured.contentType);
    return this.measured.text();
  }
}

/** Whether the caller is on this machine, and not somebody for whom a proxy on it calls. */
function isLocal({ ip, headers, socket }: FastifyRequest): boolean {
  const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
  if (isForwarded && ip === socket.remoteAddress) return false;
  return ipaddr.isValid(ip) && ipaddr.process(ip).range() === 'loopback';
}

/** In a time that does not tell how much of it is equal. */
function isEqual(given: string, wanted: string): boolean {
  const hashOf = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hashOf(given), hashOf(wanted));
}
