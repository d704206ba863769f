import type { Answer, RequestOptions } from '../support/http-server.ts';

/**
 * The expected actor of an event: the holder of the key or of the session that was sent, the account of the new session, or an anonymous
 * caller.
 */
type By = 'key' | 'session' | 'anonymous';

export interface World {
  /** The session of an administrator. */
  session: string;
  key: string;
  keyId: string;
  accountId: string;
  /** The id of an active agent. */
  agentId: string;
  ask(method: string, path: string, options?: RequestOptions): Promise<Answer>;
}

export interface Act {
  /** The route as it stands in test/coverage/routes.txt. */
  route: string;
  /** The events that the request always appends. */
  leaves: readonly string[];
  /** The events that the request may append as well, depending on the moment. */
  mayLeave?: readonly string[];
  by: By;
  status: number;
  path: (world: World) => string;
  json?: (world: World) => object;
  /** Prepares the state that the request needs, or restores it. */
  before?: (world: World) => Promise<unknown>;
  /** The value true holds rebuilds back during the request. */
  holdsRebuilds?: boolean;
}

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
    route: 'DELETE /api/agents/:agentId',
    before: another,
    leaves: ['AgentDeletionRequested'],
    mayLeave: ['SeatReleased'],
    by: 'key',
    status: 204,
    path: rest,
  },
  { route: 'POST /api/auth/logout', leaves: ['SignedOut'], by: 'session', status: 204, path: () => '/api/auth/logout' },
];

async function settled(world: World): Promise<void> {
  await world.ask('GET', `${agent(world)}/wait?timeout=60`, { credential: world.key });
}

/** Lists what each saga does at a due time, and the events that record it. */
export const timers: Record<string, Record<string, readonly string[]>> = {
  deployments: {
    'a deployment takes too long': ['DeploymentFailed'],
    'a start, a restart or a wake takes too long': ['AgentFailed'],
    'a stop takes too long: it is killed': ['AgentStopped'],
    'a crashed container is made again after its back-off': ['AgentStarted'],
    'an idle agent sleeps': ['AgentSleepRequested', 'AgentSlept'],
    'an agent that sleeps for long sleeps deeper': ['AgentSleepRequested', 'AgentSlept'],
  },
  messages: { 'a delivery is tried again': ['DeliveryFailed', 'MessageDelivered', 'MessageDeadLettered'] },
  seats: { 'no agent came for a seat': ['SeatReleased'] },
  'api-keys': { 'a key comes to its end': ['ApiKeyExpired'] },
  logs: {},
  volumes: { 'an agent whose volume is too full stops': ['AgentFailed', 'DeploymentFailed'] },
  'output-retention': { 'the output of an agent that was deleted is removed': ['LogLinesCaptured'] },
};
