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

  /** Whether the service answers at all. */
  @Get('health')
  @Public()
  health(): Health {
    return { status: 'ok', runtime: 'fleet', version };
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

  /** Prometheus. */
  @Get('metrics')
  @Public()
  async metrics(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<string> {
    if (this.config.metricsLoopbackOnly && !isLoopback(request.ip)) throw new Refusal('not_found', 'There is nothing at this address.');
    void reply.header('content-type', this.measured.contentType);
    return this.measured.text();
  }
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
