import type { FastifyInstance } from 'fastify';

interface KnownRoute {
  path: string;
  methods: string[];
}

const routesOf = new WeakMap<FastifyInstance, KnownRoute[]>();

/** Records every route of the server. It must be called before the first route is registered. */
export function recordRoutes(server: FastifyInstance): void {
  const known: KnownRoute[] = [];
  routesOf.set(server, known);
  server.addHook('onRoute', ({ url, method }) => {
    known.push({ path: url, methods: [method].flat() });
  });
}

/** Returns every route of the server, whatever registered it. */
export function knownRoutes(server: FastifyInstance): readonly KnownRoute[] {
  return routesOf.get(server) ?? [];
}

/** Returns the methods that the path accepts; none if there is no such path. */
export function allowedMethods(server: FastifyInstance, url: string): string[] {
  const segments = segmentsOf(url.split('?', 1)[0] ?? '');
  const matching = knownRoutes(server).filter(({ path }) => matches(segmentsOf(path), segments));
  return [...new Set(matching.flatMap(({ methods }) => methods))].sort();
}

function segmentsOf(path: string): string[] {
  return path.split('/').slice(1);
}

function matches(pattern: string[], path: string[]): boolean {
  const wildcard = pattern.at(-1) === '*';
  const fixed = wildcard ? pattern.slice(0, -1) : pattern;
  if (wildcard ? path.length < fixed.length : path.length !== fixed.length) return false;
  return fixed.every((segment, index) => segment === path[index] || (segment.startsWith(':') && path[index] !== ''));
}
