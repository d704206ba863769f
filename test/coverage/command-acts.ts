import type { Act, World } from './act.ts';

const root = (world: World) => `/api/agents/${world.agentId}/commands`;

const commandAct = (method: string, action: string, leaves: string[], status: number, more: Partial<Act> = {}): Act => ({
  route: `${method} /api/agents/:agentId/commands/:commandId${action}`,
  leaves,
  by: 'key',
  status,
  path: (world) => `${root(world)}/:made${action}`,
  ...more,
});

/** Lists the routes of commands that go on, in an order in which each can be called. */
export const commandActs: Act[] = [
  {
    route: 'POST /api/agents/:agentId/commands',
    leaves: ['AgentCommandStarted'],
    by: 'key',
    status: 201,
    path: root,
    json: () => ({ command: ['cat'] }),
  },
  commandAct('POST', '/stdin', ['AgentCommandInputSent'], 204, { body: { type: 'application/octet-stream', content: 'canary' } }),
  commandAct('POST', '/signal', ['AgentCommandSignaled'], 204, { json: () => ({ signal: 'SIGCONT' }) }),
  commandAct('DELETE', '', ['AgentCommandRemoved'], 204),
];
