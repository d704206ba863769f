import { readFileSync } from 'node:fs';

import { routesOfTheService } from './service-routes.ts';

interface Document {
  paths: Record<string, Record<string, { operationId: string }>>;
}

const document = JSON.parse(readFileSync(new URL('../../docs/reference/openapi.json', import.meta.url), 'utf8')) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId }]) => ({ path, method, operationId })),
);

/** The names of operations are those of the tools of models and of the methods of generated clients. */
describe('the names of operations', () => {
  it('are unique', () => {
    const names = operations.map(({ operationId }) => operationId.toLowerCase());
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  });

  it('are a verb and a noun in camelCase where the route gives one, as the document says them', async () => {
    const named = (await routesOfTheService()).filter(({ operationId }) => operationId !== undefined);
    expect(named.length).toBeGreaterThan(20);
    for (const { method, path, operationId } of named) {
      expect(operationId).toMatch(/^[a-z]+([A-Z][a-z0-9]+)+$/);
      const written = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
      expect({ path, operationId: written?.operationId }).toEqual({ path, operationId });
    }
  });

  it('are plain on the Provisioning API, and end in Rest where the REST API has the same operation', async () => {
    const routes = new Map((await routesOfTheService()).map(({ path, operationId }) => [operationId, path]));
    const ofRest = [...routes.keys()].filter((name) => name?.endsWith('Rest') === true) as string[];
    expect(ofRest.length).toBeGreaterThan(5);
    for (const name of ofRest) {
      expect(routes.get(name)).toMatch(/^\/api\/(?!v1\/)/);
      expect(routes.get(name.slice(0, -'Rest'.length))).toBe(routes.get(name)?.replace('/api/', '/api/v1/'));
    }
  });
});
