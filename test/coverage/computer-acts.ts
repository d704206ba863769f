import type { Act, World } from './act.ts';

const computer = (world: World) => `/api/v1/computers/${world.computerId}`;

/** Finds the computer that the first act made. */
async function made(world: World): Promise<void> {
  const { json } = await world.ask('GET', '/api/v1/computers', { credential: world.key });
  world.computerId = json[0].computer_id as string;
}

const computerAct = (method: string, action: string, leaves: string[], status: number, more: Partial<Act> = {}): Act => ({
  route: `${method} /api/v1/computers/:computerId${action}`,
  leaves,
  by: 'key',
  status,
  path: (world) => `${computer(world)}${action}`,
  ...more,
});

/** Lists the routes of computers, in an order in which each can be called. */
export const computerActs: Act[] = [
  {
    route: 'POST /api/v1/computers',
    leaves: ['ComputerSeatTaken', 'ComputerCreated'],
    by: 'key',
    status: 201,
    path: () => '/api/v1/computers',
    json: () => ({ end_user_id: 'user-1' }),
  },
  computerAct('PATCH', '', ['ComputerConfigured'], 200, { before: made, json: () => ({ name: 'another' }) }),
  computerAct('POST', '/actions', ['ComputerActed'], 200, {
    json: () => ({ action: 'key', text: 'Return' }),
  }),
  computerAct('POST', '/exec', ['ExecStarted', 'ExecEnded'], 200, { json: () => ({ command: ['true'] }) }),
  computerAct('PUT', '/files', ['FileChangeStarted', 'FileWritten'], 201, {
    path: (world) => `${computer(world)}/files?path=notes.txt`,
    body: { type: 'text/plain', content: 'text' },
  }),
  computerAct('POST', '/viewer', ['ViewerCreated'], 201, { json: () => ({}) }),
  computerAct('POST', '/sessions/close', ['ViewerClosed'], 200),
  computerAct('POST', '/sleep', ['ComputerSleepRequested'], 200),
  computerAct('POST', '/wake', ['ComputerWakeRequested'], 200),
  computerAct('DELETE', '', ['ComputerDeletionRequested'], 204, { mayLeave: ['ComputerSeatReleased'] }),
];
