import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import type { TemplateServer } from './template-server.ts';

const said = { messages: [{ role: 'user', content: 'count' }] };
const run = { assistant_id: 'agent', input: said, if_not_exists: 'create' };

/**
 * Has threads and items of the store made as Mooring and the owner make them, and expects that a caller with these headers, who is anybody,
 * reaches none of them, while it has a conversation of its own.
 */
export async function threadsOfOthers(server: TemplateServer, headers: Record<string, string>): Promise<void> {
  const asPublic = (method: string, path: string, body?: unknown) => server.call(method, path, body, headers);
  const conversation = uuidv5('webhooks', uuidv7());
  const others = (await server.call('POST', '/threads', {})).json as { thread_id: string };
  expect((await server.call('POST', `/threads/${conversation}/runs/wait`, run)).status).toBe(200);
  expect((await server.call('PUT', '/store/items', { namespace: ['a'], key: 'b', value: { c: 1 } })).status).toBe(204);

  expect(await asPublic('POST', '/threads/search', {})).toMatchObject({ status: 200, json: [] });
  expect(await asPublic('POST', '/threads/search', { ids: [], metadata: { graph_id: 'agent' } })).toMatchObject({ status: 200, json: [] });
  const refused: [string, string, unknown][] = [
    ['POST', '/threads/count', {}],
    ['POST', '/threads/search', { ids: [conversation] }],
    ['POST', '/threads', { thread_id: conversation, if_exists: 'do_nothing' }],
    ['GET', `/threads/${conversation}`, undefined],
    ['GET', `/threads/${conversation.toUpperCase()}/state`, undefined],
    ['POST', `/threads/${conversation}/history`, {}],
    ['POST', `/threads/${conversation}/copy`, {}],
    ['POST', `/threads/${conversation}/runs/wait`, run],
    ['DELETE', `/threads/${conversation}`, undefined],
    ['PUT', '/store/items', { namespace: ['a'], key: 'b', value: {} }],
    ['GET', '/store/items?namespace=a&key=b', undefined],
    ['DELETE', '/store/items', { namespace: ['a'], key: 'b' }],
    ['POST', '/store/items/search', { namespace_prefix: [] }],
    ['POST', '/store/namespaces', {}],
  ];
  for (const [method, path, body] of refused) {
    const { status, json } = await asPublic(method, path, body);
    expect([method, path, status, json]).toEqual([method, path, 403, { detail: expect.any(String) }]);
  }
  expect((await server.call('POST', '/threads/search', {})).json).toHaveLength(2);
  expect((await server.call('GET', '/store/items?namespace=a&key=b')).json).toMatchObject({ value: { c: 1 } });

  const { json: mine, status } = await asPublic('POST', '/threads', {});
  const { thread_id: id } = mine as { thread_id: string };
  expect([status, (await asPublic('POST', `/threads/${id}/runs/wait`, run)).status]).toEqual([200, 200]);
  expect((await asPublic('GET', `/threads/${id}/state`)).json).toMatchObject({ values: { messages: expect.any(Array) } });
  expect((await asPublic('POST', `/threads/${id}/history`, {})).json).toEqual(expect.arrayContaining([expect.anything()]));
  expect((await asPublic('POST', '/threads/search', { ids: [id, others.thread_id] })).json).toHaveLength(2);
  expect((await asPublic('POST', '/runs/wait', run)).status).toBe(200);
  expect((await asPublic('POST', '/assistants/search', {})).json).toMatchObject([{ graph_id: 'agent' }]);
  expect((await asPublic('DELETE', `/threads/${id}`)).status).toBe(204);
}
