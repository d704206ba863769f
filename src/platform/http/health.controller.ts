import { readFileSync } from 'node:fs';

import { Controller, Get, Header, Req, Res } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';

import { Public } from './access.ts';
import { Metrics } from './metrics.ts';
import { Config } from '../../config.ts';
import { Database } from '../database/database.ts';
import { EventStore } from '../event-store/event-store.ts';
import { Refusal } from '../refusal.ts';
import { ContainerRuntime } from '../runtime/runtime.ts';

/** In ms; a dependency that takes longer counts as away. */
const PING_TIMEOUT_MS = 3_000;

export const version = (JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }).version;

export class Health {
  /** Always `ok`: the service answers. */
  status: string;
  runtime: string;
  version: string;
}

export class Dependency {
  name: string;
  status: 'ok' | 'unavailable';
  /** Without it the service refuses writes. Agents go on running in any case. */
  required: boolean;
}

export class Readiness {
  status: 'ready' | 'degraded' | 'unavailable';
  dependencies: Dependency[];
}

@Controller()
export class HealthController {
  constructor(
    private readonly modules: ModuleRef,
    private readonly metricsRegistry: Metrics,
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
    const dependencies = await Promise.all([
      this.look('database', true, Database, async (database) => void (await database.query('select 1'))),
      this.look('event_store', true, EventStore, (store) => store.ping()),
      this.look('runtime', false, ContainerRuntime, (runtime) => runtime.ping()),
    ]);
    const away = dependencies.filter(({ status }) => status === 'unavailable');
    const status = away.some(({ required }) => required) ? 'unavailable' : away.length > 0 ? 'degraded' : 'ready';
    void reply.status(status === 'unavailable' ? 503 : 200);
    return { status, dependencies };
  }

  /** Prometheus. */
  @Get('metrics')
  @Public()
  async metrics(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Promise<string> {
    if (this.config.metricsLoopbackOnly && !isLoopback(request.ip)) throw new Refusal('not_found', 'There is nothing at this address.');
    void reply.header('content-type', this.metricsRegistry.registry.contentType);
    return this.metricsRegistry.registry.metrics();
  }

  private async look<T>(
    name: string,
    required: boolean,
    token: abstract new (...parts: never[]) => T,
    ping: (part: T) => Promise<void>,
  ): Promise<Dependency> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error('no answer')), PING_TIMEOUT_MS)));
      await Promise.race([ping(this.modules.get<T>(token as never, { strict: false })), late]);
      return { name, status: 'ok', required };
    } catch {
      return { name, status: 'unavailable', required };
    } finally {
      clearTimeout(timer);
    }
  }
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
