import { Body, Controller, Get, Module, Param, Patch } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import pg from 'pg';

import { agentsProjection } from '../../src/features/agents/agents.projection.ts';
import { tableOf } from '../../src/eventsourcing/projections/projection.ts';
import { portAppends } from './appending.ts';
import { emptyStore } from './empty-store.ts';

/**
 * Serves as the limit of the framework alone: one handler reads one agent's row by a prepared statement, and one appends one event to a
 * store of its own, without any other part of the service.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const { store } = await emptyStore(process.env.DATABASE_URL ?? '', 'bare_appends');
const append = portAppends(store, Number(process.env.BENCH_WRITERS));

@Controller('agents')
class BareController {
  @Get(':agentId')
  async get(@Param('agentId') agentId: string): Promise<unknown> {
    const text = `select * from ${tableOf(agentsProjection)} where agent_id = $1`;
    const { rows } = await pool.query<Record<string, unknown>>({ name: 'bare', text, values: [agentId] });
    return rows[0];
  }

  @Patch(':writer')
  async change(@Param('writer') writer: string, @Body() body: { description: string }): Promise<unknown> {
    await append(Number(writer));
    return body;
  }
}

@Module({ controllers: [BareController] })
class BareModule {}

const app = await NestFactory.create<NestFastifyApplication>(BareModule, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');
console.info(`listens on ${await app.getUrl()}`);
