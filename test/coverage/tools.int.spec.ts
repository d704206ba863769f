import { readFileSync } from 'node:fs';

import { catalogueOf } from '../../src/features/mcp/tool-catalogue.service.ts';
import { toolName } from '../../src/features/mcp/tool-request.ts';
import { tools } from '../../src/features/mcp/tools.ts';
import { routesOfTheService } from './service-routes.ts';

describe('the tools of models', () => {
  it('each have a route, a description, and arguments with names of their own', async () => {
    const catalogue = catalogueOf(await routesOfTheService());
    expect(catalogue.map(({ tool }) => tool.operationId)).toEqual(tools.map(({ operationId }) => operationId));
    for (const { listing: listed } of catalogue) {
      expect(listed.name).toMatch(/^[a-z]+(_[a-z]+)+$/);
      expect([listed.name, listed.description.length > 20]).toEqual([listed.name, true]);
      expect(JSON.stringify(listed.inputSchema)).not.toContain('$ref');
      for (const argument of Object.keys(listed.inputSchema.properties)) expect(argument).toMatch(/^[A-Za-z_]{1,64}$/);
    }
  });

  it('are all in docs/guides/mcp.md', () => {
    const page = readFileSync(new URL('../../docs/guides/mcp.md', import.meta.url), 'utf8');
    expect(tools.map(({ operationId }) => toolName(operationId)).filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  it('name only tools that exist as the next one, and as the one that makes them superfluous', () => {
    const known = new Set(tools.map(({ operationId }) => operationId));
    const named = tools.flatMap(({ next, insteadOf }) => [next, insteadOf]).filter((one) => one !== undefined);
    expect(named.filter((one) => !known.has(one))).toEqual([]);
    expect(known.size).toBe(tools.length);
  });

  it('that read have routes that read, and only those', async () => {
    for (const { tool, method } of catalogueOf(await routesOfTheService()))
      expect([tool.operationId, tool.effect === 'reads']).toEqual([tool.operationId, method === 'GET']);
  });
});
