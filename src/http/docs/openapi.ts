import { readFileSync } from 'node:fs';

import { ModulesContainer } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';

import type { FastifyReply, FastifyRequest } from 'fastify';

import type { Access } from '../auth/access.ts';
import { version } from '../../kernel/version.ts';
import { PROBLEM_TYPE } from '../responses/problems.ts';
import { DOCS_PATH, DOCUMENT_PATH, listRoutes } from '../auth/route-table.ts';
import { errorCodes } from '../../kernel/errors/problem-error.ts';

const committed = new URL('../../../docs/reference/openapi.json', import.meta.url);

/** Returns the committed OpenAPI document. */
export function committedDocument(): OpenAPIObject {
  return JSON.parse(readFileSync(committed, 'utf8')) as OpenAPIObject;
}

/** Serves the committed OpenAPI document, which a test compares with the sources, and its pages; both are public. */
export function setUpOpenApi(app: NestFastifyApplication): void {
  SwaggerModule.setup(DOCS_PATH, app, () => committedDocument(), {
    raw: false,
    customSiteTitle: 'Mooring API',
  });
  // The library would render the document for each request, and anybody may send requests.
  let bytes: Buffer | undefined;
  app.getHttpAdapter().get(DOCUMENT_PATH, (_request: FastifyRequest, reply: FastifyReply) => {
    bytes ??= Buffer.from(JSON.stringify(committedDocument()));
    return reply.type('application/json; charset=utf-8').send(bytes);
  });
}

/**
 * Returns the OpenAPI 3.1 document of both APIs. The security of each operation follows from the access rules. @public scripts/openapi.mjs
 * calls it in the output of `nest build`.
 */
export function openApiDocument(app: NestFastifyApplication): OpenAPIObject {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Mooring')
    .setDescription(
      'An event-sourced control plane for AI agents. Errors are problem documents (RFC 9457); docs/reference/errors.md explains each code.',
    )
    .setVersion(version)
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'An API key (mk_…).' }, 'apiKeyHeader')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key (mk_…) as a bearer credential.' }, 'apiKeyBearer')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'A session token (ms_…), as login answers it.' }, 'session');
  const document = SwaggerModule.createDocument(app, builder.build(), {
    operationIdFactory: (controller, method) => `${controller.replace(/Controller$/, '')}_${method}`,
  });
  document.components = { ...document.components, schemas: { ...document.components?.schemas, Problem: problemSchema } };
  for (const { method, path, access, idempotent, operationId } of listRoutes(app.get(ModulesContainer))) {
    const item = document.paths[path.replace(/:(\w+)/g, '{$1}')] as Record<string, Operation> | undefined;
    const operation = item?.[method.toLowerCase()];
    if (operation && operationId !== undefined) operation.operationId = operationId;
    if (operation && access) describe(operation, access);
    if (operation && idempotent) operation.parameters = [...(operation.parameters ?? []), idempotencyKey];
  }
  sortEnumerations(document);
  return document;
}

/** Sorts the values of each enumeration, because the compiler lists those of a union in an arbitrary order. */
function sortEnumerations(part: unknown): void {
  if (typeof part !== 'object' || part === null) return;
  for (const [name, value] of Object.entries(part))
    if (name === 'enum' && Array.isArray(value)) value.sort((a, b) => (String(a) < String(b) ? -1 : 1));
    else sortEnumerations(value);
}

interface Operation {
  operationId: string;
  security?: Record<string, string[]>[];
  parameters?: unknown[];
  responses: Record<string, unknown>;
  [extension: `x-${string}`]: unknown;
}

function describe(operation: Operation, access: Access): void {
  const session: Record<string, string[]>[] = [{ session: [] }];
  const anyCredential: Record<string, string[]>[] = [{ apiKeyHeader: [] }, { apiKeyBearer: [] }, ...session];
  operation.security =
    access.kind === 'public' || access.kind === 'invoke'
      ? []
      : access.kind === 'scope' || access.kind === 'caller'
        ? anyCredential
        : session;
  if (access.kind === 'scope') operation['x-required-scopes'] = access.anyOf;
  if (access.kind === 'admin') operation['x-required-role'] = 'admin';
  operation.responses['default'] = {
    description: 'Refused or failed.',
    content: { [PROBLEM_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } } },
  };
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'For 24 hours a repeat of the request under the same key is answered as the first was, and makes nothing twice.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

const problemSchema = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code', 'request_id'],
  properties: {
    type: { type: 'string', format: 'uri' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string', enum: [...errorCodes] },
    request_id: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' }, index: { type: ['integer', 'null'] } },
      },
    },
  },
};
