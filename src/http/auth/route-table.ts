import { Injectable, type OnApplicationBootstrap, RequestMethod, type Type } from '@nestjs/common';
import { HttpAdapterHost, MetadataScanner, ModulesContainer, Reflector } from '@nestjs/core';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { ACCESS, type Access, TICKET } from './access.ts';
import { IDEMPOTENT } from '../idempotency/idempotency.interceptor.ts';
import { knownRoutes } from '../requests/known-routes.ts';
import { OPERATION, REST_SUFFIX } from '../requests/operation.ts';
import { READS_MODEL } from '../responses/reads-model.ts';

/** The paths that the OpenAPI pages use, open to all. */
export const DOCS_PATH = '/api/docs';
export const DOCUMENT_PATH = '/api/openapi.json';

export interface RouteAccess {
  method: string;
  path: string;
  /** The value is undefined if the route has no access rule. */
  access: Access | undefined;
  /** The value is true if the route accepts an `Idempotency-Key`. */
  idempotent: boolean;
  /** The value is true if the route accepts a ticket instead of a credential in a header. */
  takesTicket: boolean;
  /** The read models that the route reads. */
  readModels: string[];
  /** The name of the operation in the OpenAPI document; undefined if the route has none. */
  operationId: string | undefined;
}

type AccessRules = Pick<RouteAccess, 'access' | 'takesTicket' | 'readModels'>;

/** Holds the rules of every route. Startup fails if a route has no access rule, or would bypass the check of credentials. */
@Injectable()
export class RouteTable implements OnApplicationBootstrap {
  /** The rules by method and path. */
  private readonly rules = new Map<string, AccessRules>();

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
    if (unguarded.length > 0) throw new Error(`routes that bypass the gate: ${unguarded.map(({ path }) => path).join(', ')}`);
  }

  /** Returns the rules of the request's route. An unknown route is closed to everybody. */
  rulesOf({ method, routeOptions: { url = '' } }: FastifyRequest): AccessRules {
    // The framework uses the handlers of GET for HEAD.
    const known = this.rules.get(`${method === 'HEAD' ? 'GET' : method} ${url}`) ?? this.rules.get(`ALL ${url}`);
    return known ?? (isDocs(url) ? DOCS_RULES : UNKNOWN_ROUTE_RULES);
  }
}

const DOCS_RULES: AccessRules = { access: { kind: 'public' }, takesTicket: false, readModels: [] };
const UNKNOWN_ROUTE_RULES: AccessRules = { access: undefined, takesTicket: false, readModels: [] };

function isDocs(path: string): boolean {
  return path === DOCUMENT_PATH || path === DOCS_PATH || path.startsWith(`${DOCS_PATH}/`);
}

/** Returns every route of the controllers, by path and method. */
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
    const takesTicket = reflector.get<true | undefined>(TICKET, handler as never) === true;
    const readModels = reflector.get<string[] | undefined>(READS_MODEL, handler as never) ?? [];
    const operation = reflector.get<string | undefined>(OPERATION, handler as never);
    const paths = pathsOf(controller).flatMap((prefix) => pathsOf(handler).map((path) => join(prefix, path)));
    return paths.map((path) => ({
      method: RequestMethod[method] ?? 'ALL',
      path,
      access,
      idempotent,
      takesTicket,
      readModels,
      operationId: operation === undefined ? undefined : `${operation}${paths.length === 1 || isProvisioning(path) ? '' : REST_SUFFIX}`,
    }));
  });
}

function isProvisioning(path: string): boolean {
  return path.startsWith('/api/v1/');
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
