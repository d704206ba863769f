import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { until } from '../../../test/support/until.ts';
import type { SagaKey } from '../../eventsourcing/sagas/saga.ts';
import { Differences } from '../../sandboxes/services.ts';
import { AGENT_KIND, type AgentKind } from './containers/agent-kind.ts';

const settings = { image: 'auto' as const, image_name: null, template_id: 'hello' };

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, environment: { MOORING_IMAGE_BUILDS: '2' } });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
  await bed.account('globex', 100);
});

afterAll(async () => {
  await server?.close();
});

const path = (agentId: string, action = '') => `/api/v1/agents/${agentId}${action === '' ? '' : `/${action}`}`;
const ask = (account: string, method: string, where: string, wait = 25) =>
  server.request(method, where, { credential: `mk_${account}`, headers: { prefer: `wait=${wait}` } });
const status = async (agentId: string) => (await bed.load(agentId)).state?.status;

async function search(): Promise<SagaKey[]> {
  const differences = server.app.get(Differences, { strict: false });
  return differences.find(server.app.get<AgentKind>(AGENT_KIND, { strict: false }), await differences.list(0));
}
const found = async () => (await search()).map(({ key }) => key);

async function deployed(account: string): Promise<string> {
  const agentId = await bed.created(account, settings);
  expect(await ask(account, 'POST', path(agentId, 'deploy'))).toMatchObject({ status: 200, json: { status: 'active' } });
  return agentId;
}

describe('the comparison with the engine', () => {
  it('finds nothing if every agent is in its desired state, and inspects no single container', async () => {
    const agents = await Promise.all(Array.from({ length: 3 }, () => deployed('acme')));
    await ask('acme', 'POST', path(agents[1] ?? '', 'sleep'));
    await ask('acme', 'POST', path(agents[2] ?? '', 'stop'));
    await bed.created('acme', settings);
    await until('the rows have come as far as the log', async () => ((await found()).length === 0 ? true : undefined));
    // A saga may look at an agent meanwhile, but a search that inspects containers does so each time.
    await until('a search finds and inspects nothing', async () => {
      faulty.calls.clear();
      return (await found()).length === 0 && faulty.calls.size === 0 ? true : undefined;
    });
  });

  it('finds an agent that is not in the log, and then leaves it alone', async () => {
    const stranger = '00000000-0000-4000-8000-00000000beef';
    await faulty.inner.ensureVolume(stranger);
    expect(await search()).toContainEqual({ key: stranger, account: null });
    server.app.get(Differences, { strict: false }).ignore(stranger);
    expect(await found()).not.toContain(stranger);
    expect((await faulty.inner.inspect(stranger)).volume).toBe(true);
  });

  it('leaves the sandboxes of other kinds alone', async () => {
    const computer = 'computer-00000000-0000-4000-8000-00000000beef';
    await faulty.inner.ensureVolume(computer);
    expect(await found()).not.toContain(computer);
    await faulty.inner.removeVolume(computer);
  });
});

describe('deployments whose images never arrive', () => {
  it('hold up neither a frozen agent of the same account, nor a deployment of another account', async () => {
    const sleeper = await deployed('globex');
    await ask('globex', 'POST', path(sleeper, 'sleep'));
    let begun = 0;
    faulty.imageWork = (_, signal) => {
      begun += 1;
      return new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    };
    const waiting = await Promise.all(Array.from({ length: 80 }, () => bed.created('globex', settings)));
    await Promise.all(waiting.map((agentId) => ask('globex', 'POST', path(agentId, 'deploy'), 0)));
    await until('the account has all the builds that it may have', () => (begun === 1 ? true : undefined));
    faulty.imageWork = () => Promise.resolve();
    expect(await ask('globex', 'POST', path(sleeper, 'start'))).toMatchObject({ status: 200, json: { status: 'active' } });
    await deployed('acme');
    expect(begun).toBe(1);
    expect(new Set(await Promise.all(waiting.map(status)))).toEqual(new Set(['deploying']));
  });
});
