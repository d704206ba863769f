import { Injectable, type OnApplicationBootstrap, RequestMethod, type Type } from '@nestjs/common';
import { HttpAdapterHost, MetadataScanner, ModulesContainer, Reflector } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { ACCESS, type Access } from './access.ts';
import { IDEMPOTENT } from './idempotency.ts';
import { knownRoutes } from './known-routes.ts';
import { READS_MODEL } from './positions.ts';

/** Served by the OpenAPI part itself, for everybody. */
export const DOCS_PATH = '/api/docs';
export const DOCUMENT_PATH = '/api/openapi.json';

export interface RouteAccess {
  method: string;
  path: string;
  /** Undefined where the route does not say. */
  access: Access | undefined;
  /** Whether it takes an `Idempotency-Key`. */
  idempotent: boolean;
  /** The read models that it answers from. */
  readModels: string[];
}

type Rules = Pick<RouteAccess, 'access' | 'readModels'>;

/** Knows the rules of every route. Refuses the start where a route does not say what it asks of its caller, or where the gate does not see it. */
@Injectable()
export class RouteTable implements OnApplicationBootstrap {
  /** By method and path. */
  private readonly rules = new Map<string, Rules>();

  constructor(
    private readonly modules: ModulesContainer,
    private readonly host: HttpAdapterHost,
  ) {}

  onApplicationBootstrap(): void {
    const routes = listRoutes(this.modules);
    const silent = routes.filter(({ access }) => access === undefined);
    if (silent.length > 0)
      throw new Error(`routes without an access rule: ${silent.map(({ method, path }) => `${method} ${path}`).join(', ')}`);
    for (const route of routes) this.rules.set(`${route.method} ${route.path}`, route);
    const guarded = new Set(routes.map(({ path }) => path));
    const unguarded = knownRoutes(this.host.httpAdapter.getInstance<FastifyInstance>()).filter(
      ({ path }) => !guarded.has(path) && !isDocs(path),
    );
    if (unguarded.length > 0) throw new Error(`routes that no gate sees: ${unguarded.map(({ path }) => path).join(', ')}`);
  }

  /** What the route of the request asks; a route that is not known is open to nobody. */
  rulesOf({ method, routeOptions: { url = '' } }: FastifyRequest): Rules {
    // The framework answers HEAD by the handlers of GET.
    const known = this.rules.get(`${method === 'HEAD' ? 'GET' : method} ${url}`);
    return known ?? (isDocs(url) ? OF_DOCS : OF_UNKNOWN);
  }
}

const OF_DOCS: Rules = { access: { kind: 'public' }, readModels: [] };
const OF_UNKNOWN: Rules = { access: undefined, readModels: [] };

function isDocs(path: string): boolean {
  return path === DOCUMENT_PATH || path === DOCS_PATH || path.startsWith(`${DOCS_PATH}/`);
}

/** Every route of the controllers, by path and method. */
export function listRoutes(modules: ModulesContainer): RouteAccess[] {
  const controllers = [...modules.values()].flatMap((module) => [...module.controllers.values()]);
  const routes = controllers.flatMap(({ metatype }) => (metatype ? routesOf(metatype as Type) : []));
  return routes.sort((a, b) => (`${a.path} ${a.method}` < `${b.path} ${b.method}` ? -1 : 1));
}

const scanner = new MetadataScanner();
const reflector = new Reflector();

function routesOf(controller: Type): RouteAccess[] {
  const prototype = controller.prototype as Record<string, Function>;
  return scanner.getAllMethodNames(prototype).flatMap((name) => {
    const handler = prototype[name] as Function;
    const method = Reflect.getMetadata('method', handler) as RequestMethod | undefined;
    if (method === undefined) return [];
    const access = reflector.getAllAndOverride<Access | undefined>(ACCESS, [handler as never, controller as never]);
    const idempotent = reflector.get<object | undefined>(IDEMPOTENT, handler as never) !== undefined;
    const readModels = reflector.get<string[] | undefined>(READS_MODEL, handler as never) ?? [];
    return pathsOf(controller).flatMap((prefix) =>
      pathsOf(handler).map((path) => ({
        method: RequestMethod[method] ?? 'ALL',
        path: join(prefix, path),
        access,
        idempotent,
        readModels,
      })),
    );
  });
}

function pathsOf(target: Function): string[] {
  return [(Reflect.getMetadata('path', target) as string | string[] | undefined) ?? ''].flat();
}

function join(...parts: string[]): string {
  return `/${parts
    .flatMap((part) => part.split('/'))
    .filter(Boolean)
    .join('/')}`;
}
