import { Controller, Get, Module, Param } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import pg from 'pg';

import { agentsProjection } from '../../src/agents/agents.projection.ts';
import { tableOf } from '../../src/platform/projections/projection.ts';

/**
 * Serves as the limit of the framework alone: its handler reads one agent's row by a prepared statement, without any other part of the
 * service.
 */
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });

@Controller('agents')
class BareController {
  @Get(':agentId')
  async get(@Param('agentId') agentId: string): Promise<unknown> {
    const text = `select * from ${tableOf(agentsProjection)} where agent_id = $1`;
    const { rows } = await pool.query<Record<string, unknown>>({ name: 'bare', text, values: [agentId] });
    return rows[0];
  }
}

@Module({ controllers: [BareController] })
class BareModule {}

const app = await NestFactory.create<NestFastifyApplication>(BareModule, new FastifyAdapter(), { logger: false });
await app.listen(0, '127.0.0.1');
console.info(`listens on ${await app.getUrl()}`);
