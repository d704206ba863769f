import fc from 'fast-check';

import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { requestOf, toolName, type ToolRoute } from './tool-request.ts';
import { toolInput } from './tool-schema.ts';

const operation = {
  parameters: [
    { name: 'agentId', in: 'path', required: true, schema: { type: 'string' } },
    { name: 'limit', in: 'query', schema: { type: 'integer' } },
    { name: 'Idempotency-Key', in: 'header', schema: { type: 'string' } },
    { name: 'Last-Event-ID', in: 'header', schema: { type: 'string' } },
  ],
  requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Body' } } } },
};
const schemas = { Body: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } };
const tool = { operationId: 'sendText', title: 'Send', effect: 'changes' as const, waits: true as const };
const route = (more: object = {}): ToolRoute => ({
  tool: { ...tool, ...more },
  method: 'POST',
  path: '/api/agents/{agentId}/texts',
  input: toolInput({ ...tool, ...more }, operation, schemas),
});
const errorsOf = (given: Record<string, unknown>, more: object = {}) => {
  try {
    requestOf(route(more), given, 50);
    return [];
  } catch (error) {
    return (error as ProblemError).facts.errors?.map(({ field }) => field);
  }
};

describe('the arguments of a tool', () => {
  it('are sent in the path, the query, a header or the body, as the route requires', () => {
    const given = { agentId: 'a/../b?c', limit: 5, idempotency_key: 'once', text: 'x', unknown: 7 };
    expect(requestOf(route(), given, 50)).toEqual({
      method: 'POST',
      path: '/api/agents/a%2F..%2Fb%3Fc/texts?limit=5',
      headers: { prefer: 'wait=50', 'idempotency-key': 'once', 'content-type': 'application/json' },
      body: '{"text":"x","unknown":7}',
    });
  });

  it('reach no other route, and no other header, whatever they are', () => {
    const value = fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.boolean(), fc.constant(null), fc.object({ maxDepth: 1 }));
    const given = fc.record({ agentId: value, limit: value, idempotency_key: value, text: value }, { requiredKeys: [] });
    fc.assert(
      fc.property(given, (args) => {
        let request;
        try {
          request = requestOf(route(), args, 50);
        } catch (error) {
          expect(error).toBeInstanceOf(ProblemError);
          return;
        }
        expect(request.path).toMatch(/^\/api\/agents\/[^/?#\s]+\/texts(\?limit=[^#\s]*)?$/);
        expect(Object.keys(request.headers).every((name) => ['prefer', 'idempotency-key', 'content-type'].includes(name))).toBe(true);
        expect(request.headers['idempotency-key'] ?? '').toMatch(/^[\x20-\x7e]*$/);
        expect(decodeURIComponent(request.path.split('/')[3] ?? '')).toBe(args.agentId);
      }),
      { numRuns: 1_000 },
    );
  });

  it('that the route does not have are refused by name', () => {
    expect(errorsOf({ text: 'x' })).toEqual(['agentId']);
    expect(errorsOf({ agentId: '' })).toEqual(['agentId']);
    expect(errorsOf({ agentId: 'a', limit: [1] })).toEqual(['limit']);
    expect(errorsOf({ agentId: 'a', idempotency_key: 'a\r\nx-api-key: b' })).toEqual(['idempotency_key']);
    const { requestBody: _requestBody, ...bodyless } = operation;
    const input = toolInput(tool, bodyless, schemas);
    expect(() => requestOf({ ...route(), input }, { agentId: 'a', text: 'x' }, 50)).toThrow('text: is not a known argument.');
  });

  it('have a smaller bound where the tool has one, which is also the default', () => {
    const bounds = { limit: 45 };
    expect(requestOf(route({ bounds }), { agentId: 'a' }, 50).path).toContain('limit=45');
    expect(errorsOf({ agentId: 'a', limit: 46 }, { bounds })).toEqual(['limit']);
    expect(route({ bounds }).input.schema.properties.limit).toEqual({ type: 'integer', maximum: 45, default: 45 });
  });
});

describe('the input of a tool', () => {
  it('is one schema without references', () => {
    expect(route().input.schema).toEqual({
      type: 'object',
      properties: {
        agentId: { type: 'string' },
        limit: { type: 'integer' },
        idempotency_key: { type: 'string' },
        text: { type: 'string' },
      },
      required: ['agentId', 'text'],
      additionalProperties: false,
    });
  });

  it('is not made if two arguments have one name, if a reference leads nowhere, or in a circle', () => {
    const twice = { Body: { type: 'object', properties: { limit: {} } } };
    expect(() => toolInput(tool, operation, twice)).toThrow('two arguments with the name limit');
    expect(() => toolInput(tool, operation, {})).toThrow('leads nowhere');
    expect(() =>
      toolInput(tool, operation, { Body: { type: 'object', properties: { a: { $ref: '#/components/schemas/Body' } } } }),
    ).toThrow('leads nowhere');
    expect(() => toolInput(tool, operation, { Body: { type: 'string' } })).toThrow('no JSON object');
    expect(() => toolInput({ ...tool, bounds: { most: 1 } }, operation, schemas)).toThrow('takes no most');
  });

  it('is the first form of a body that may have several', () => {
    const several = {
      Body: { oneOf: [{ type: 'object', properties: { list: { type: 'array' } }, required: ['list'] }, { type: 'string' }] },
    };
    expect(toolInput(tool, operation, several).schema).toMatchObject({
      properties: { list: { type: 'array' } },
      required: ['agentId', 'list'],
    });
  });

  it('has the text of a file as one argument, which is sent unchanged', () => {
    const requestBody = { content: { 'application/octet-stream': {}, 'multipart/form-data': {} } };
    const input = toolInput(tool, { ...operation, requestBody }, schemas);
    expect(input.schema.required).toEqual(['agentId', 'content']);
    const sent = requestOf({ ...route(), input }, { agentId: 'a', content: '{"a": 1}' }, 50);
    expect(sent).toMatchObject({ headers: { 'content-type': 'application/octet-stream' }, body: '{"a": 1}' });
    const refused = (given: object) => () => requestOf({ ...route(), input }, { agentId: 'a', ...given }, 50);
    expect(refused({})).toThrow('content: is missing.');
    expect(refused({ content: 7 })).toThrow('content: must be a text.');
    expect(refused({ content: '', text: 'x' })).toThrow('text: is not a known argument.');
  });

  it('is without the arguments that the tool chooses itself', () => {
    const input = toolInput({ ...tool, omits: ['limit'] }, operation, schemas);
    expect([Object.keys(input.schema.properties), input.locations.has('limit')]).toEqual([['agentId', 'idempotency_key', 'text'], false]);
    expect(() => toolInput({ ...tool, omits: ['most'] }, operation, schemas)).toThrow('takes no most');
  });

  it('has a name in snake_case', () => {
    expect(toolName('listAgentsRest')).toBe('list_agents_rest');
  });
});
