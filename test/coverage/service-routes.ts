import { ModulesContainer, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { AppModule } from '../../src/app.module.ts';
import { readConfig } from '../../src/platform/config/config.ts';
import { listRoutes, type RouteAccess } from '../../src/platform/http/auth/route-table.ts';

/** Returns the routes of the service, which is not started. */
export async function routesOfTheService(): Promise<RouteAccess[]> {
  const options = { preview: true, abortOnError: false, logger: false } as const;
  const app = await NestFactory.create(AppModule.forRoot(readConfig({})), new FastifyAdapter(), options);
  return listRoutes(app.get(ModulesContainer));
}
