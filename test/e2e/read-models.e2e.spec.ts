import { readFileSync } from 'node:fs';

import { operate } from '../support/log.ts';
import { OutsidePostgres } from '../support/outside-postgres.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

const routes = readFileSync(new URL('../coverage/routes.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('GET '))
  .map((line) => line.split(/\s+/)[1] as string);
/** These routes use the agent, or the first request of them issues a token, so that a second answer differs. */
const acting = [
  '/api/agents/:agentId/files/download',
  '/api/agents/:agentId/files/list',
  '/api/agents/:agentId/terminal',
  '/api/webhooks/:agentId/token',
];
/** These routes describe the process rather than events. */
const ofTheProcess = ['/metrics', '/api/admin/projections', '/api/admin/runtime', '/api/admin/work'];
const queries: Record<string, string> = {
  '/api/agents/:agentId/wait': 'status=stopped',
  '/api/v1/agents/:agentId/wait': 'status=stopped',
  '/api/v1/agents/:agentId/history/state': 'revision=3',
  '/api/v1/agents/:agentId/history/diff': 'from=1&to=5',
  '/api/admin/events': 'limit=200',
};

describe('A service whose read tables were dropped', () => {
  let server: OutsidePostgres;
  let service: StartedService;
  let session: string;
  let ids: Record<string, string>;

  beforeAll(async () => {
    server = await OutsidePostgres.start();
    service = await StartedService.start({ runtime: 'local', environment: { DATABASE_URL: server.url } });
    const { email, password } = service.firstRun;
    session = (await service.call('POST', '/api/auth/login', { email, password })).body.session_token;
    const agent = await service.call('POST', '/api/agents', { name: 'lost', templateId: 'hello' }, { prefer: 'wait=60' });
    const agentId = agent.body.agent_id as string;
    await service.call('POST', `/api/v1/agents/${agentId}/env`, { key: 'TOKEN', value: 'canary-value', is_secret: true });
    const chat = await service.call('POST', `/api/agents/${agentId}/chat`, { message: 'hello' });
    await service.call('POST', `/api/agents/${agentId}/stop`, undefined, { prefer: 'wait=30' });
    const [deployment] = (await service.call('GET', `/api/v1/agents/${agentId}/deployments`)).body;
    ids = { agentId, conversationId: chat.body.conversation_id, deploymentId: deployment.id ?? deployment.deployment_id };
  });

  afterAll(async () => {
    await service?.dispose();
    await server?.stop();
  });

  async function get(path: string, credential: string): Promise<string> {
    const answer = await fetch(`${service.firstRun.url}${path}`, { headers: { authorization: `Bearer ${credential}` } });
    const text = await answer.text();
    // Each error has its own request id, a use of a key is noted again a minute after the last note, and usage is counted up to now.
    const body = answer.status < 400 ? text.replaceAll(/"(last_used_at|to)":"[^"]*"/g, '') : text.replace(/"request_id":"[^"]*"/, '');
    return `${answer.status} ${answer.headers.get('etag') ?? ''} ${body}`;
  }

  /** Returns the response of every GET, for the key and for the administrator's session. */
  async function answers(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for (const route of routes.filter((each) => !ofTheProcess.includes(each) && !acting.includes(each))) {
      const path = route.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? name);
      const query = queries[route] === undefined ? '' : `?${queries[route]}`;
      for (const credential of [service.firstRun.api_key, session])
        found[`${route} ${credential.slice(0, 3)}`] = await get(`${path}${query}`, credential);
    }
    return found;
  }

  async function settled(): Promise<void> {
    await until('every read model is whole and up to date', async () => {
      const ready = (await (await fetch(`${service.firstRun.url}/ready`)).json()) as { status: string };
      const { body } = await service.call('GET', '/api/admin/projections', undefined, { authorization: `Bearer ${session}` });
      const isWhole = ready.status === 'ready' && Array.isArray(body) && body.every(({ lag_events, filled }) => lag_events === 0 && filled);
      return isWhole || undefined;
    });
  }

  it.each([
    ['one by one', `select format('drop table %I', table_name) as statement from projections`],
    ['with all that is known of them', `select 'truncate projections, projection_checkpoints, projection_rebuilds' as statement`],
  ])('answers every GET with the same bytes after a restart: dropped %s', async (_, statements) => {
    await settled();
    const before = await answers();
    expect(Object.values(before).filter((answer) => answer.startsWith('200'))).not.toEqual([]);
    for (const [route, answer] of Object.entries(before)) expect(`${route}: ${answer}`).not.toMatch(/: 50\d/);
    await service.stop();
    for (const { statement } of await operate(server.url, statements)) await operate(server.url, statement as string);
    await service.start();
    await settled();
    expect(await answers()).toEqual(before);
  });
});
