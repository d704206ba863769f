import { readFileSync } from 'node:fs';

export interface RouteWithBody {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path with ids that do not exist. */
  url: string;
  /** The fields that its body may have. */
  fields: string[];
}

interface Described {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: { $ref?: string; properties?: object } }> } }>>;
  components: { schemas: Record<string, { properties: object }> };
}

const UNKNOWN_ID = '01890000-0000-7000-8000-000000000000';

/** Returns every route of the API that may have a body, from the list of routes and the OpenAPI document. */
export function routesWithBodies(): RouteWithBody[] {
  const described = JSON.parse(textOf('../../docs/reference/openapi.json')) as Described;
  return textOf('../coverage/routes.txt')
    .split('\n')
    .map((line) => /^(\S+) +(\S+) {2}(.*)$/.exec(line))
    .flatMap((found) =>
      found === null || found[1] === 'GET' || found[1] === 'ALL' ? [] : [{ method: found[1] as 'POST', path: found[2] as string }],
    )
    .map(({ method, path }) => ({ method, url: path.replace(/:\w+/g, UNKNOWN_ID), fields: fieldsOf(described, method, path) }));
}

function textOf(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8');
}

function fieldsOf({ paths, components }: Described, method: string, path: string): string[] {
  const { requestBody } = paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] ?? {};
  const schema = requestBody?.content['application/json']?.schema;
  const named = components.schemas[schema?.$ref?.split('/').at(-1) ?? ''];
  return Object.keys((named ?? schema)?.properties ?? {});
}
