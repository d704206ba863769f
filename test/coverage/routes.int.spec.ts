import { readFileSync } from 'node:fs';

import { golden } from './golden.ts';
import { routesFile, routesOfTheService, routesTable } from './service-routes.ts';

/**
 * The routes that answer from streams, which are read at each request and so contain what every earlier response showed, or from data that
 * changes without events. Every other read waits for the read models that it answers from (`ReadsModel`).
 */
const answeredWithoutReadModels = [
  '/api/admin/events',
  '/api/admin/keys',
  '/api/admin/projections',
  '/api/admin/work',
  '/api/agents/:agentId/commands/:commandId/output',
  '/api/agents/:agentId/conversations/:conversationId/messages',
  '/api/agents/:agentId/files/download',
  '/api/agents/:agentId/files/list',
  '/api/agents/:agentId/terminal',
  '/api/agents/:agentId/wait',
  '/api/v1/agents/:agentId/env',
  '/api/v1/agents/:agentId/files',
  '/api/v1/agents/:agentId/history',
  '/api/v1/agents/:agentId/history/diff',
  '/api/v1/agents/:agentId/history/explain',
  '/api/v1/agents/:agentId/history/state',
  '/api/v1/agents/:agentId/wait',
  '/api/v1/computers/:computerId/files',
  '/api/v1/computers/:computerId/files/list',
  '/api/v1/computers/:computerId/screenshot',
  '/api/v1/source-credentials',
  '/api/v1/subscriptions/:subscriptionId',
  '/api/v1/subscriptions/:subscriptionId/deliveries',
  '/api/webhooks/:agentId',
  '/api/webhooks/:agentId/token',
  '/viewer/:token/socket',
];

it('every read declares the read models that it answers from, unless it answers from streams', async () => {
  const reads = (await routesOfTheService()).filter(({ method, access }) => method === 'GET' && access?.kind !== 'public');
  const silent = reads.filter(({ readModels }) => readModels.length === 0).map(({ path }) => path);
  expect(silent).toEqual(answeredWithoutReadModels);
});

/** Records every route, so that a new one or a changed access rule is seen in review: `npm run update-golden` writes the table. */
describe('test/coverage/routes.txt', () => {
  it('lists every route with what it requires of its caller', async () => {
    const routes = await routesOfTheService();
    const table = routesTable(routes);
    golden(() => expect(table).toBe(readFileSync(routesFile, 'utf8')));
    expect(new Set(routes.map(({ method, path }) => `${method} ${path}`)).size).toBe(routes.length);
    expect(table).not.toContain('NOBODY SAID');
  });
});
