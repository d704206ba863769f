import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';

import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';

import { TemplateServer } from '../support/template-server.ts';
import { threadsOfOthers } from '../support/langgraph-public.ts';

/** The graphs in JavaScript of an agent whose port is open to the public. What the same rule allows in Python is in `langgraph-python`. */

const graph = fileURLToPath(new URL('../support/protocol-agents/langgraph-graph.mjs', import.meta.url));
const files = { 'langgraph.json': JSON.stringify({ graphs: { agent: `${graph}:graph` } }) };
const program = { interpreter: process.execPath, file: 'langgraph/project/serve.mjs' } as const;
const forwarded = { forwarded: 'for=203.0.113.7;host="mooring.example.com";proto=https' };

async function serving(environment: Record<string, string>, work: (server: TemplateServer) => Promise<void>): Promise<void> {
  const server = await TemplateServer.start(program, files, environment);
  try {
    await work(server);
  } finally {
    await server.dispose();
  }
}

describe('a graph in JavaScript of a public agent', () => {
  it('shows, changes and deletes nothing of others, and has conversations with those who know their ids', async () => {
    await serving({}, async (server) => {
      await threadsOfOthers(server, forwarded);
      const asPublic = (method: string, path: string, body?: unknown, more = {}) =>
        server.call(method, path, body, { ...forwarded, ...more });
      const own = uuidv7();
      await server.call('POST', '/threads', { thread_id: own });
      const listed = await asPublic('POST', '/threads/search', { ids: [own] }, { 'content-type': 'application/x-other' });
      expect(listed.json).toMatchObject([{ thread_id: own }]);
      const refused: [string, string, unknown][] = [
        ['POST', '/assistants', { graph_id: 'agent' }],
        ['PATCH', `/assistants/${randomUUID()}`, {}],
        ['DELETE', '/assistants/agent', undefined],
        ['POST', '/runs/wait', { assistant_id: 'agent', input: {}, webhook: '/threads/search' }],
        ['POST', '/runs/batch', [{ assistant_id: 'agent', input: {}, webhook: 'http://127.0.0.1' }]],
        ['GET', `/threads/${uuidv5('webhooks', own)}/stream/events`, undefined],
        ['GET', `/%74hreads/${uuidv5('webhooks', own)}`, undefined],
        ['GET', `/threads/${uuidv5('webhooks', own).replace('-5', '-%35')}`, undefined],
      ];
      for (const [method, path, body] of refused) expect([path, (await asPublic(method, path, body)).status]).toEqual([path, 403]);
    });
  });

  it('keeps its threads from the route that would delete them all', async () => {
    await serving({}, async (server) => {
      const { json } = await server.call('POST', '/threads', {});
      const { thread_id: id } = json as { thread_id: string };
      expect((await server.call('POST', '/internal/truncate', { threads: true, runs: true, store: true })).status).toBe(500);
      expect((await server.call('GET', `/threads/${id}`)).status).toBe(200);
    });
  });

  it('is open whole if its owner says so', async () => {
    await serving({ LANGGRAPH_PUBLIC_API: 'all' }, async (server) => {
      const { json } = await server.call('POST', '/threads', {});
      const { thread_id: id } = json as { thread_id: string };
      expect((await server.call('POST', '/threads/search', {}, forwarded)).json).toMatchObject([{ thread_id: id }]);
      expect((await server.call('PUT', '/store/items', { namespace: ['a'], key: 'b', value: {} }, forwarded)).status).toBe(204);
    });
  });
});
