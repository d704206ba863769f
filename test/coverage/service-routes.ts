import { ModulesContainer, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { AppModule } from '../../src/app.module.ts';
import { readConfig } from '../../src/kernel/config/read-config.ts';
import type { Access } from '../../src/http/auth/access.ts';
import { listRoutes, type RouteAccess } from '../../src/http/auth/route-table.ts';

export const routesFile = new URL('routes.txt', import.meta.url);

/** Returns the routes of the service, which is not started. */
export async function routesOfTheService(): Promise<RouteAccess[]> {
  const options = { preview: true, abortOnError: false, logger: false } as const;
  const app = await NestFactory.create(AppModule.forRoot(readConfig({})), new FastifyAdapter(), options);
  return listRoutes(app.get(ModulesContainer));
}

/** Returns the content of routes.txt: each route with what it requires of its caller. */
export function routesTable(routes: RouteAccess[]): string {
  const lines = routes.map(
    ({ method, path, access, takesTicket }) => `${method.padEnd(6)} ${path}  ${said(access)}${takesTicket ? ', or a ticket' : ''}`,
  );
  return `${lines.join('\n')}\n`;
}

function said(access: Access | undefined): string {
  if (access === undefined) return 'NOBODY SAID';
  return access.kind === 'scope' ? `scope ${access.anyOf.join(' or ')}` : access.kind;
}
