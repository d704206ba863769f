import { until } from '../support/until.ts';
import type { Act, World } from './act.ts';
import { computerActs } from './computer-acts.ts';
import { commandActs } from './command-acts.ts';
import { secretActs } from './secret-acts.ts';
import { subscriptionActs } from './subscription-acts.ts';

const password = 'canary-password-1';
const wait = { headers: { prefer: 'wait=60' } };

const agent = (world: World) => `/api/v1/agents/${world.agentId}`;
const rest = (world: World) => `/api/agents/${world.agentId}`;
const now = (action: string) => (world: World) => world.ask('POST', `${agent(world)}/${action}`, { credential: world.key, ...wait });
const image = { name: 'another', image_name: 'nginx:1', auto_deploy: false };

const lifecycle = (path: (world: World) => string, prefix: string): Act[] => [
  { route: `POST ${prefix}/sleep`, leaves: ['AgentSleepRequested'], by: 'key', status: 202, path: (world) => `${path(world)}/sleep` },
  {
    route: `POST ${prefix}/start`,
    before: now('sleep'),
    leaves: ['AgentWakeRequested'],
    by: 'key',
    status: 202,
    path: (world) => `${path(world)}/start`,
  },
  {
    route: `POST ${prefix}/restart`,
    before: now('start'),
    leaves: ['AgentRestartRequested'],
    by: 'key',
    status: 202,
    path: (world) => `${path(world)}/restart`,
  },
  {
    route: `POST ${prefix}/stop`,
    before: now('restart'),
    leaves: ['AgentStopRequested'],
    by: 'key',
    status: 202,
    path: (world) => `${path(world)}/stop`,
  },
];

async function another(world: World): Promise<void> {
  world.agentId = (await world.ask('POST', '/api/v1/provision', { credential: world.key, json: image })).json.agent_id as string;
}

const fileChange = (method: string, action: string, leaves: string[], status: number, more: Partial<Act> = {}, query = ''): Act => ({
  route: `${method} /api/agents/:agentId/files/${action}`,
  leaves: ['FileChangeStarted', ...leaves],
  by: 'key',
  status,
  path: (world) => `${rest(world)}/files/${action}${query}`,
  ...more,
});

const form = {
  type: 'multipart/form-data; boundary=b',
  content: '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--b--\r\n',
};
/** Makes an agent whose program never starts, so that its deployment goes on. */
async function deployingAgent(world: World): Promise<void> {
  const NODE_OPTIONS = '--import=data:text/javascript,await%20new%20Promise(()=>setInterval(()=>0,60000))';
  const json = { name: 'deploying', templateId: 'hello', envVars: { NODE_OPTIONS } };
  const made = await world.ask('POST', '/api/agents', { credential: world.key, json });
  world.agentId = made.json.id as string;
  world.deploymentId = made.json.deploymentId as string;
}

const fileChanges: Act[] = [
  fileChange('POST', 'mkdir', ['DirectoryCreated'], 201, { json: () => ({ path: 'made' }) }),
  fileChange('PUT', 'write', ['FileWritten'], 200, { json: () => ({ path: 'made/a', content: 'a' }) }),
  {
    route: 'POST /api/mcp',
    leaves: ['FileChangeStarted', 'FileWritten'],
    by: 'key',
    status: 200,
    path: () => '/api/mcp',
    json: ({ agentId }) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'write_agent_file', arguments: { agentId, path: 'made/a', content: 'b' } },
    }),
  },
  fileChange('POST', 'move', ['FileMoved'], 200, { json: () => ({ from: 'made/a', to: 'made/b' }) }),
  fileChange('DELETE', 'delete', ['FileDeleted'], 204, {}, '?path=made'),
  fileChange('POST', 'upload', ['MessageAccepted', 'FileUploaded'], 200, { body: form }),
];

/** Lists every route that changes something, in an order in which each can be called, and the events that it appends. */
export const acts: Act[] = [
  {
    route: 'POST /api/auth/register',
    leaves: ['AccountOpened'],
    by: 'anonymous',
    status: 201,
    path: () => '/api/auth/register',
    json: () => ({ email: 'new@example.com', password, name: 'New' }),
  },
  {
    route: 'POST /api/auth/login',
    leaves: ['SignedIn'],
    by: 'session',
    status: 200,
    path: () => '/api/auth/login',
    json: () => ({ email: 'root@example.com', password }),
  },
  {
    route: 'POST /api/admin/accounts',
    leaves: ['AccountOpened'],
    by: 'session',
    status: 201,
    path: () => '/api/admin/accounts',
    json: () => ({ email: 'made@example.com', password, name: 'Made' }),
  },
  {
    route: 'PUT /api/admin/accounts/:accountId/plan',
    leaves: ['PlanAssigned'],
    by: 'session',
    status: 200,
    path: ({ accountId }) => `/api/admin/accounts/${accountId}/plan`,
    json: () => ({ plan: 'other', seats: 50, payment_method: true }),
  },
  {
    route: 'POST /api/admin/projections/:name/rebuild',
    holdsRebuilds: true,
    leaves: ['ProjectionRebuildRequested'],
    by: 'session',
    status: 202,
    path: () => '/api/admin/projections/agents/rebuild',
  },
  {
    route: 'DELETE /api/admin/projections/:name/rebuild',
    holdsRebuilds: true,
    before: (world) => world.ask('POST', '/api/admin/projections/agents/rebuild', { credential: world.session }),
    leaves: ['ProjectionRebuildCanceled'],
    by: 'session',
    status: 204,
    path: () => '/api/admin/projections/agents/rebuild',
  },
  {
    route: 'POST /api/admin/projections/:name/verify',
    leaves: ['ProjectionVerified'],
    by: 'session',
    status: 200,
    path: () => '/api/admin/projections/accounts/verify',
  },
  {
    route: 'POST /api/admin/keys/rotate',
    leaves: ['MasterKeyRotationBegun'],
    mayLeave: ['MasterKeyRotated'],
    by: 'session',
    status: 202,
    path: () => '/api/admin/keys/rotate',
    json: () => ({}),
  },
  {
    route: 'POST /api/v1/keys',
    leaves: ['ApiKeyIssued'],
    by: 'session',
    status: 201,
    path: () => '/api/v1/keys',
    json: () => ({ name: 'k' }),
  },
  { route: 'DELETE /api/v1/keys/:keyId', leaves: ['ApiKeyRevoked'], by: 'session', status: 204, path: () => '/api/v1/keys/:made' },
  {
    route: 'POST /api/v1/provision',
    leaves: ['SeatTaken', 'FirstMonthCharged', 'AgentProvisioned', 'VariableSet'],
    by: 'key',
    status: 201,
    path: () => '/api/v1/provision',
    json: () => ({ ...image, env_vars: { A: '1' } }),
  },
  {
    route: 'POST /api/agents',
    leaves: ['SeatTaken', 'FirstMonthCharged', 'AgentProvisioned', 'DeploymentRequested'],
    by: 'key',
    status: 201,
    path: () => '/api/agents',
    json: () => ({ name: 'third', templateId: 'hello' }),
  },
  {
    route: 'PATCH /api/v1/agents/:agentId',
    leaves: ['AgentConfigured'],
    by: 'key',
    status: 200,
    path: agent,
    json: () => ({ name: 'renamed' }),
  },
  {
    route: 'PATCH /api/agents/:agentId',
    leaves: ['AgentConfigured'],
    by: 'key',
    status: 200,
    path: rest,
    json: () => ({ name: 'renamed again' }),
  },
  ...secretActs,
  {
    route: 'POST /api/v1/agents/:agentId/env',
    leaves: ['VariableSet'],
    by: 'key',
    status: 201,
    path: (world) => `${agent(world)}/env`,
    json: () => ({ key: 'B', value: '1', is_secret: true }),
  },
  {
    route: 'PUT /api/v1/agents/:agentId/env/:key',
    leaves: ['VariableSet'],
    by: 'key',
    status: 200,
    path: (world) => `${agent(world)}/env/B`,
    json: () => ({ value: '2' }),
  },
  {
    route: 'DELETE /api/v1/agents/:agentId/env/:key',
    leaves: ['VariableRemoved'],
    by: 'key',
    status: 204,
    path: (world) => `${agent(world)}/env/B`,
  },
  {
    route: 'POST /api/v1/agents/:agentId/files',
    leaves: ['CustomFilesStored'],
    by: 'key',
    status: 201,
    path: (world) => `${agent(world)}/files`,
    json: () => ({ files: [{ path: 'notes.txt', content: 'text' }] }),
  },
  {
    route: 'DELETE /api/v1/agents/:agentId/files',
    leaves: ['CustomFileRemoved'],
    by: 'key',
    status: 204,
    path: (world) => `${agent(world)}/files?path=notes.txt`,
  },
  {
    route: 'POST /api/agents/:agentId/chat',
    leaves: ['ConversationStarted', 'MessageAccepted'],
    by: 'key',
    status: 200,
    path: (world) => `${rest(world)}/chat`,
    json: () => ({ message: 'hello' }),
  },
  {
    route: 'POST /api/agents/:agentId/exec',
    leaves: ['ExecStarted', 'ExecEnded'],
    by: 'key',
    status: 200,
    path: (world) => `${rest(world)}/exec`,
    json: () => ({ command: ['true'] }),
  },
  ...commandActs,
  {
    route: 'ALL /a/:agentId/*',
    before: async (world) => {
      await world.ask('PATCH', agent(world), { credential: world.key, json: { public: true } });
      await now('sleep')(world);
    },
    leaves: ['AgentWakeRequested'],
    by: 'anonymous',
    status: 200,
    method: 'GET',
    path: ({ agentId }) => `/a/${agentId}/healthz`,
  },
  {
    route: 'POST /api/webhooks/:agentId',
    leaves: ['ConversationStarted', 'MessageAccepted'],
    by: 'webhook',
    status: 202,
    path: ({ agentId }) => `/api/webhooks/${agentId}`,
    json: () => ({ action: 'opened' }),
  },
  {
    route: 'POST /api/agents/:agentId/deliveries/:messageId/redeliver',
    before: delivered,
    leaves: ['MessageRequeued'],
    by: 'key',
    status: 202,
    path: (world) => `${rest(world)}/deliveries/${world.messageId}/redeliver`,
  },
  {
    route: 'POST /api/webhooks/:agentId/token/rotate',
    leaves: ['WebhookTokenIssued'],
    by: 'key',
    status: 200,
    path: ({ agentId }) => `/api/webhooks/${agentId}/token/rotate`,
  },
  ...fileChanges,
  {
    route: 'POST /api/agents/:agentId/terminal/tickets',
    leaves: ['TerminalTicketIssued'],
    by: 'key',
    status: 201,
    path: (world) => `${rest(world)}/terminal/tickets`,
  },
  ...subscriptionActs,
  ...lifecycle(agent, '/api/v1/agents/:agentId'),
  {
    route: 'POST /api/v1/agents/:agentId/deploy',
    leaves: ['DeploymentRequested'],
    by: 'key',
    status: 202,
    path: (world) => `${agent(world)}/deploy`,
    json: () => ({}),
  },
  {
    route: 'POST /api/deploy',
    before: settled,
    leaves: ['DeploymentRequested'],
    by: 'key',
    status: 202,
    path: () => '/api/deploy',
    json: ({ agentId }) => ({ agentId, source: 'template', templateId: 'hello' }),
  },
  {
    route: 'POST /api/v1/agents/:agentId/rollback',
    before: settled,
    leaves: ['DeploymentRequested'],
    by: 'key',
    status: 202,
    path: (world) => `${agent(world)}/rollback`,
    json: () => ({}),
  },
  ...lifecycle(rest, '/api/agents/:agentId').map((act, index) => (index === 0 ? { ...act, before: settled } : act)),
  {
    route: 'DELETE /api/v1/agents/:agentId',
    leaves: ['AgentDeletionRequested'],
    mayLeave: ['SeatReleased'],
    by: 'key',
    status: 204,
    path: agent,
  },
  {
    route: 'POST /api/v1/agents/:agentId/deployments/:deploymentId/cancel',
    before: deployingAgent,
    leaves: ['AgentStopRequested', 'DeploymentCanceled'],
    by: 'key',
    status: 202,
    path: (world) => `${agent(world)}/deployments/${world.deploymentId}/cancel`,
  },
  {
    route: 'DELETE /api/agents/:agentId',
    before: another,
    leaves: ['AgentDeletionRequested'],
    mayLeave: ['SeatReleased'],
    by: 'key',
    status: 204,
    path: rest,
  },
  ...computerActs,
  { route: 'POST /api/auth/logout', leaves: ['SignedOut'], by: 'session', status: 204, path: () => '/api/auth/logout' },
];

async function delivered(world: World): Promise<void> {
  world.messageId = await until('a webhook is delivered', async () => {
    const { json } = await world.ask('GET', `${rest(world)}/deliveries?status=delivered`, { credential: world.key });
    return json[0]?.id as string | undefined;
  });
}

/** The id of an event that is to be sent to the only subscription. */
async function settled(world: World): Promise<void> {
  await world.ask('GET', `${agent(world)}/wait?timeout=60`, { credential: world.key });
}
