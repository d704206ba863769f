import { Injectable, type OnApplicationBootstrap, RequestMethod, type Type } from '@nestjs/common';
import { DiscoveryService, HttpAdapterHost, MetadataScanner, Reflector } from '@nestjs/core';
import type { FastifyInstance } from 'fastify';

import type { Access } from './access.ts';
import { accessOf } from './guard.ts';
import { knownRoutes } from './known-routes.ts';

/** Served by the OpenAPI part itself, for everybody. */
export const DOCS_PATH = '/api/docs';
export const DOCUMENT_PATH = '/api/openapi.json';

export interface RouteAccess {
  method: string;
  path: string;
  /** Undefined where the route does not say. */
  access: Access | undefined;
}

/** Every route with what it asks of its caller. A route that does not say, or that the guard does not see, stops the start. */
@Injectable()
export class RouteTable implements OnApplicationBootstrap {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly reflector: Reflector,
    private readonly host: HttpAdapterHost,
  ) {}

  onApplicationBootstrap(): void {
    const routes = this.list();
    const silent = routes.filter(({ access }) => access === undefined);
    if (silent.length > 0)
      throw new Error(`routes without an access rule: ${silent.map(({ method, path }) => `${method} ${path}`).join(', ')}`);
    const guarded = new Set(routes.map(({ path }) => path));
    const unguarded = knownRoutes(this.host.httpAdapter.getInstance<FastifyInstance>()).filter(
      ({ path }) => !guarded.has(path) && path !== DOCUMENT_PATH && path !== DOCS_PATH && !path.startsWith(`${DOCS_PATH}/`),
    );
    if (unguarded.length > 0) throw new Error(`routes that no guard sees: ${unguarded.map(({ path }) => path).join(', ')}`);
  }

  list(): RouteAccess[] {
    const routes = this.discovery.getControllers().flatMap(({ metatype }) => (metatype ? this.routesOf(metatype as Type) : []));
    return routes.sort((a, b) => `${a.path} ${a.method}`.localeCompare(`${b.path} ${b.method}`));
  }

  private routesOf(controller: Type): RouteAccess[] {
    const prototype = controller.prototype as Record<string, Function>;
    return this.scanner.getAllMethodNames(prototype).flatMap((name) => {
      const handler = prototype[name] as Function;
      const method = Reflect.getMetadata('method', handler) as RequestMethod | undefined;
      if (method === undefined) return [];
      const access = accessOf(this.reflector, handler, controller);
      return pathsOf(controller).flatMap((prefix) =>
        pathsOf(handler).map((path) => ({ method: RequestMethod[method] ?? 'ALL', path: join(prefix, path), access })),
      );
    });
  }
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
