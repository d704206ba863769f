import { readFileSync, writeFileSync } from 'node:fs';

import { ModulesContainer, NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';

import { AppModule } from '../../src/app.module.ts';
import { readConfig } from '../../src/config.ts';
import type { Access } from '../../src/platform/http/access.ts';
import { listRoutes } from '../../src/platform/http/route-table.ts';

const golden = new URL('routes.txt', import.meta.url);

function said(access: Access | undefined): string {
  if (access === undefined) return 'NOBODY SAID';
  return access.kind === 'scope' ? `scope ${access.anyOf.join(' or ')}` : access.kind;
}

/** A new route, or another access rule, is seen in review: `UPDATE_ROUTES=1 npm test -- test/coverage/routes` writes the table. */
describe('test/coverage/routes.txt', () => {
  it('says of every route what it asks of its caller', async () => {
    const options = { preview: true, abortOnError: false, logger: false } as const;
    const app = await NestFactory.create(AppModule.forRoot(readConfig({})), new FastifyAdapter(), options);
    const routes = listRoutes(app.get(ModulesContainer));
    const lines = routes.map(({ method, path, access }) => `${method.padEnd(6)} ${path}  ${said(access)}`);
    const table = `${lines.join('\n')}\n`;
    if (process.env.UPDATE_ROUTES !== undefined) writeFileSync(golden, table);
    expect(table).toBe(readFileSync(golden, 'utf8'));
    expect(new Set(routes.map(({ method, path }) => `${method} ${path}`)).size).toBe(routes.length);
    expect(table).not.toContain('NOBODY SAID');
  });
});
