import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

import type { Caller } from '../../kernel/context/caller.ts';
import type { Access } from '../../http/auth/access.ts';
import { listRoutes, type RouteAccess } from '../../http/auth/route-table.ts';
import { isAllowed } from '../../http/auth/scopes.ts';
import { committedDocument } from '../../http/docs/openapi.ts';
import { type DocumentedOperation, toolInput, type ToolInput } from './tool-schema.ts';
import { toolName, type ToolRoute } from './tool-request.ts';
import type { Tool } from './tool.ts';
import { tools } from './tools.ts';

/** A tool as MCP clients see it. */
export interface ToolListing {
  name: string;
  title: string;
  description: string;
  inputSchema: ToolInput['schema'];
  annotations: { title: string; readOnlyHint: boolean; destructiveHint: boolean; idempotentHint: boolean };
}

interface CatalogueEntry extends ToolRoute {
  access: Access;
  listing: ToolListing;
}

/**
 * The tools whose routes this application has. The catalogue is built when it is first needed, since a service may have no callers of
 * tools.
 */
@Injectable()
export class ToolCatalogue {
  private cached: ReadonlyMap<string, CatalogueEntry> | null = null;

  constructor(private readonly modules: ModulesContainer) {}

  /** Returns the tools that the caller may call. */
  listFor(caller: Caller): ToolListing[] {
    const allowed = [...this.entries.values()].filter(({ access }) => isAllowed(access, caller));
    const operations = new Set(allowed.map(({ tool }) => tool.operationId));
    return allowed.filter(({ tool: { insteadOf } }) => insteadOf === undefined || !operations.has(insteadOf)).map(({ listing }) => listing);
  }

  /** Returns the tool with the name. Its route decides who may call it. */
  find(name: string): ToolRoute | null {
    return this.entries.get(name) ?? null;
  }

  private get entries(): ReadonlyMap<string, CatalogueEntry> {
    this.cached ??= new Map(catalogueOf(listRoutes(this.modules)).map((entry) => [entry.listing.name, entry]));
    return this.cached;
  }
}

/** Returns the tools of the routes. Throws if the arguments of a tool can't be described by one schema. */
export function catalogueOf(routes: readonly RouteAccess[]): CatalogueEntry[] {
  const { paths, components } = committedDocument();
  const byOperation = new Map(routes.map((route) => [route.operationId, route]));
  return tools.flatMap((tool) => {
    const route = byOperation.get(tool.operationId);
    if (route?.access === undefined) return [];
    const [method, path] = [route.method, route.path.replace(/:(\w+)/g, '{$1}')];
    const operation = (paths[path] as Record<string, DocumentedOperation> | undefined)?.[method.toLowerCase()];
    if (operation === undefined) throw new Error(`the OpenAPI document does not have ${tool.operationId}`);
    const input = toolInput(tool, operation, components?.schemas ?? {});
    return [{ tool, method, path, input, access: route.access, listing: toListing(tool, operation, input) }];
  });
}

function toListing(
  { operationId, title, description, effect, isIdempotent }: Tool,
  { summary = '' }: DocumentedOperation,
  input: ToolInput,
): ToolListing {
  return {
    name: toolName(operationId),
    title,
    description: (description ?? summary).replaceAll('\n', ' '),
    inputSchema: input.schema,
    annotations: {
      title,
      readOnlyHint: effect === 'reads',
      destructiveHint: effect === 'destroys',
      idempotentHint: effect === 'reads' || isIdempotent === true,
    },
  };
}
