import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { quickRetries } from '../../../test/support/intervals.ts';
import { until } from '../../../test/support/until.ts';
import { RuntimeUnavailable } from '../../runtime/runtime.errors.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, intervals: quickRetries });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});

afterAll(async () => {
  await server?.close();
});

const ask = (method: string, path: string, json?: unknown, wait = 25) =>
  server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: `wait=${wait}` } });
const path = (agentId: string, action: string) => `/api/v1/agents/${agentId}/${action}`;
const created = () => bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
const becomes = (agentId: string, wanted: string) =>
  until(`${agentId} is ${wanted}`, async () => ((await bed.load(agentId)).state?.status === wanted ? true : undefined));
const typesOf = async (agentId: string) => (await bed.events(agentId)).map(({ type }) => type);

describe('a deployment', () => {
  it('is queued while the places of its account are taken, says so in its log, and has its time from when it has one', async () => {
    const [first, second, third, fourth] = [await created(), await created(), await created(), await created()];
    const finish: (() => void)[] = [];
    faulty.imageWork = (_, signal) =>
      new Promise((resolve, reject) => {
        finish.push(resolve);
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    for (const agentId of [first, second]) await ask('POST', path(agentId, 'deploy'), undefined, 0);
    await until('both are being made', () => (finish.length === 2 ? true : undefined));
    for (const agentId of [third, fourth]) {
      await ask('POST', path(agentId, 'deploy'), undefined, 0);
      await until('it waits', async () => ((await typesOf(agentId)).includes('DeploymentQueued') ? true : undefined));
    }
    const record = async () => (await ask('GET', path(third, 'deployments'))).json[0];
    const log = await until('its log says so', async () => ((await record()).build_log === '' ? undefined : (await record()).build_log));
    expect(log).toContain('Waits for a place to build: 2 of this account’s builds run, and it is the next of this account');
    expect(await record()).toMatchObject({ status: 'queued' });
    const waiting = (await bed.load(third)).state;
    expect(Date.parse(waiting?.deadlineAt ?? '')).toBeGreaterThan(Date.now() + 1_000_000);

    expect(await ask('POST', path(fourth, 'stop'))).toMatchObject({ json: { status: 'stopped' } });
    expect((await ask('GET', path(fourth, 'deployments'))).json[0]).toMatchObject({ status: 'canceled' });

    finish[0]?.();
    await until('it has a place', () => finish[2]);
    await until('it builds', async () => ((await record()).status === 'building' ? true : undefined));
    const begun = (await bed.load(third)).state;
    expect(Date.parse(begun?.deadlineAt ?? '')).toBeLessThanOrEqual(Date.now() + 900_000);
    finish.forEach((each) => each());
    for (const agentId of [first, second, third]) await becomes(agentId, 'active');
    expect(await typesOf(first)).not.toContain('DeploymentQueued');
    expect(finish).toHaveLength(3);
  });

  it('that had begun and has to wait for a place again is not charged for that wait', async () => {
    const [first, second, third] = [await created(), await created(), await created()];
    const works: { resolve: () => void; reject: (error: Error) => void }[] = [];
    faulty.imageWork = () => new Promise((resolve, reject) => works.push({ resolve, reject }));
    for (const [index, agentId] of [first, second].entries()) {
      await ask('POST', path(agentId, 'deploy'), undefined, 0);
      await until('it is being made', () => (works.length === index + 1 ? true : undefined));
    }
    await ask('POST', path(third, 'deploy'), undefined, 0);
    await until('the third waits', async () => ((await typesOf(third)).includes('DeploymentQueued') ? true : undefined));
    const firstEnd = (await bed.load(first)).state?.deadlineAt ?? '';
    works[0]?.reject(new RuntimeUnavailable(new Error('the engine restarts')));
    await until('the third has its place', () => works[2]);
    await until('the first waits again', async () => ((await typesOf(first)).includes('DeploymentQueued') ? true : undefined));
    expect((await bed.load(first)).state).toMatchObject({
      deadlineAt: new Date(Date.parse(firstEnd) + 3_600_000).toISOString(),
      deployment: { status: 'building', isWaiting: true },
    });
    works[2]?.resolve();
    await until('the first has a place again', () => works[3]);
    await until('it goes on', async () => ((await bed.load(first)).state?.deployment?.isWaiting === false ? true : undefined));
    expect(Date.parse((await bed.load(first)).state?.deadlineAt ?? '')).toBeGreaterThan(Date.parse(firstEnd));
    works.forEach(({ resolve }) => resolve());
    for (const agentId of [first, second, third]) await becomes(agentId, 'active');
    expect((await typesOf(first)).filter((type) => type === 'DeploymentStarted')).toHaveLength(2);
  });
});
