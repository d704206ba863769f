import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { agentFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { refusalOf } from '../../../../test/support/decider-spec.ts';
import { until } from '../../../../test/support/until.ts';
import { Aggregates } from '../../../eventsourcing/aggregates/aggregates.ts';
import { LogFollower } from '../../../eventsourcing/log/log-follower.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { Database } from '../../../postgres/database/database.ts';
import { Replica } from '../../../postgres/leases/replica.ts';
import { Activity } from '../../../sandboxes/services.ts';
import type { Agent } from '../aggregate/agent-state.rules.ts';
import { AgentWakes } from './agent-wakes.service.ts';

let server: TestServer;
let agents: AgentFixture;
let wakes: AgentWakes;
let activity: Activity;

beforeAll(async () => {
  server = await startFeatureServer(agentFeatures);
  agents = new AgentFixture(server);
  wakes = server.app.get(AgentWakes, { strict: false });
  activity = server.app.get(Activity, { strict: false });
});
afterAll(() => server?.close());

const awake = <T>(agentId: string, work: (agent: Agent, woken: boolean) => Promise<T>, accountId = 'acme') =>
  wakes.whileAwake(
    { sandboxId: agentId, accountId, trigger: 'chat', context: systemContext('test', accountId), signal: new AbortController().signal },
    work,
  );
const isWaking = (agentId: string) =>
  until('the wake is asked for', async () => ((await agents.load(agentId)).state?.status === 'waking' ? true : undefined));
const code = (attempt: Promise<unknown>) =>
  attempt.then(
    () => null,
    (error: unknown) =>
      refusalOf(() => {
        throw error;
      })?.code,
  );

it('runs the work immediately if the agent is awake, and keeps it awake meanwhile', async () => {
  const agentId = await agents.active('acme');
  const { result, woken } = await awake(agentId, async (agent, wokenFor) => [agent.status, wokenFor, await activity.isHeld(agentId)]);
  expect([result, woken]).toEqual([['active', false, true], false]);
  expect(await activity.isHeld(agentId)).toBe(false);
  expect(await activity.lastActiveAt(agentId)).not.toBeNull();
});

it('wakes a sleeping agent, and runs the work when it is awake', async () => {
  const agentId = await agents.asleep('acme');
  const called = awake(agentId, async (agent) => agent.status);
  await isWaking(agentId);
  await agents.ready(agentId);
  expect(await called).toEqual({ result: 'active', woken: true });
});

it('wakes once for 100 callers, and answers all of them', async () => {
  const agentId = await agents.asleep('acme');
  const calls = Array.from({ length: 100 }, () => awake(agentId, async (agent) => agent.status));
  await isWaking(agentId);
  await agents.ready(agentId);
  expect(new Set((await Promise.all(calls)).map(({ result, woken }) => `${result} ${woken}`))).toEqual(new Set(['active true']));
  expect((await agents.types(agentId)).filter((type) => type === 'AgentWakeRequested')).toHaveLength(1);
  expect(await activity.isHeld(agentId)).toBe(false);
});

it('wakes the agent again if it is put to sleep while callers wait', async () => {
  const agentId = await agents.asleep('acme');
  const called = awake(agentId, async (agent) => agent.status);
  await isWaking(agentId);
  await agents.says(agentId, {
    type: 'SleepAgent',
    accountId: 'acme',
    depth: 'frozen',
    reason: 'requested',
    deadlineAt: new Date().toISOString(),
  });
  await isWaking(agentId);
  await agents.ready(agentId);
  expect((await called).result).toBe('active');
});

it('holds the agent before it reads the state that the work relies on', async () => {
  // A saga that reads the holds after it requested a sleep then sees the work, or the work sees the sleep.
  const agentId = await agents.active('acme');
  const aggregates = server.app.get(Aggregates, { strict: false });
  const heldWhenRead: boolean[] = [];
  const execute = jest.spyOn(aggregates, 'execute').mockImplementationOnce(async (...asked: Parameters<typeof aggregates.execute>) => {
    heldWhenRead.push(await activity.isHeld(agentId));
    execute.mockRestore();
    return aggregates.execute(...asked);
  });
  await awake(agentId, async () => heldWhenRead.push(await activity.isHeld(agentId)));
  expect(heldWhenRead).toEqual([true, true]);
});

it('reads the state of an agent that is used repeatedly once, and again after an event of the agent', async () => {
  const agentId = await agents.active('acme');
  await awake(agentId, async () => 'first');
  const aggregates = server.app.get(Aggregates, { strict: false });
  const [load, execute] = [jest.spyOn(aggregates, 'load'), jest.spyOn(aggregates, 'execute')];
  await awake(agentId, async () => 'second');
  expect(load.mock.calls.length + execute.mock.calls.length).toBe(0);
  const deadlineAt = new Date(Date.now() + 60_000).toISOString();
  await agents.says(agentId, { type: 'StopAgent', accountId: 'acme', deadlineAt });
  await until('the stop is heard of', async () =>
    (await code(awake(agentId, async () => 'third'))) === 'agent_unavailable' ? true : undefined,
  );
  load.mockRestore();
  execute.mockRestore();
});

it('lets go of an agent that another replica puts to sleep as soon as it hears of that, some seconds before it would by itself', async () => {
  const agentId = await agents.active('acme');
  const another = new Activity(server.app.get(Database, { strict: false }), new Replica());
  await awake(agentId, async () => 'done');
  expect(await another.isHeld(agentId)).toBe(true);
  const deadlineAt = new Date(Date.now() + 60_000).toISOString();
  await agents.says(agentId, { type: 'SleepAgent', accountId: 'acme', depth: 'frozen', reason: 'requested', deadlineAt });
  await until('nobody holds it', async () => ((await another.isHeld(agentId)) ? undefined : true), { timeoutMs: 4_000 });
});

it('holds an agent that is put to sleep for as long as work is under way', async () => {
  const agentId = await agents.active('acme');
  const another = new Activity(server.app.get(Database, { strict: false }), new Replica());
  await awake(agentId, async () => {
    const deadlineAt = new Date(Date.now() + 60_000).toISOString();
    await agents.says(agentId, { type: 'SleepAgent', accountId: 'acme', depth: 'frozen', reason: 'requested', deadlineAt });
    await server.app.get(LogFollower, { strict: false }).catchUpToHead();
    expect(await another.isHeld(agentId)).toBe(true);
  });
});

it('does not let another account use the remembered state', async () => {
  const agentId = await agents.active('acme');
  await awake(agentId, async () => 'mine');
  expect(await code(awake(agentId, async () => 'stolen', 'other'))).toBe('agent_not_found');
});

it('ends the wait of a caller that aborts, and of no other', async () => {
  const agentId = await agents.asleep('acme');
  const impatient = new AbortController();
  const need = { sandboxId: agentId, accountId: 'acme', trigger: 'chat', context: systemContext('test', 'acme') };
  const ended = wakes.whileAwake({ ...need, signal: impatient.signal }, async () => 'worked').catch((error: Error) => error.message);
  const patient = awake(agentId, async (agent) => agent.status);
  await isWaking(agentId);
  impatient.abort(new Error('enough'));
  expect(await ended).toBe('enough');
  await agents.ready(agentId);
  expect((await patient).result).toBe('active');
});

it.each(['created', 'stopped', 'deploying'] as const)('refuses an agent that is %s', async (status) => {
  const agentId = status === 'created' ? await agents.created('acme') : await agents.active('acme');
  const deadlineAt = new Date(Date.now() + 60_000).toISOString();
  if (status === 'stopped') {
    await agents.says(agentId, { type: 'StopAgent', accountId: 'acme', deadlineAt });
    await agents.says(agentId, { type: 'RecordStopped' });
  }
  if (status === 'deploying') {
    const source = { source: 'docker' as const, imageName: 'x', repoUrl: null, branch: null, templateId: null };
    await agents.says(agentId, { type: 'DeployAgent', accountId: 'acme', deadlineAt, deploymentId: uuidv7(), ...source });
  }
  expect(await code(awake(agentId, async () => 'worked'))).toBe('agent_unavailable');
  expect(await activity.isHeld(agentId)).toBe(false);
});

it('wakes nothing for a caller who does not want that, and holds what is awake', async () => {
  const need = {
    accountId: 'acme',
    trigger: 'chat',
    context: systemContext('test', 'acme'),
    signal: new AbortController().signal,
    wake: false,
  };
  const [asleep, active] = [await agents.asleep('acme'), await agents.active('acme')];
  expect(await code(wakes.whileAwake({ ...need, sandboxId: asleep }, async () => 'worked'))).toBe('agent_unavailable');
  expect(await agents.types(asleep)).not.toContain('AgentWakeRequested');
  expect(await activity.lastActiveAt(asleep)).toBeNull();
  const { result, woken } = await wakes.whileAwake({ ...need, sandboxId: active }, () => activity.isHeld(active));
  expect([result, woken]).toEqual([true, false]);
});

it('refuses callers who wait when the agent settles elsewhere', async () => {
  const agentId = await agents.asleep('acme');
  const called = code(awake(agentId, async () => 'worked'));
  await isWaking(agentId);
  await agents.says(agentId, { type: 'RecordFailure', kind: 'timeout', reason: 'not ready in time' });
  expect(await called).toBe('agent_unavailable');
});

it('does not let another account keep an agent awake', async () => {
  const agentId = await agents.asleep('other');
  expect(await code(awake(agentId, async () => 'worked'))).toBe('agent_not_found');
  expect(await code(awake(uuidv7(), async () => 'worked'))).toBe('agent_not_found');
  expect(await activity.lastActiveAt(agentId)).toBeNull();
  expect(await agents.types(agentId)).not.toContain('AgentWakeRequested');
});

it('releases the agent when the work fails', async () => {
  const agentId = await agents.active('acme');
  await expect(awake(agentId, () => Promise.reject(new Error('the work failed')))).rejects.toThrow('the work failed');
  expect(await activity.isHeld(agentId)).toBe(false);
});
