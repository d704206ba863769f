import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { AgentSettings } from '../../src/features/agents/index.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { freePass } from '../support/saga-pass.ts';
import { until } from '../support/until.ts';
import { VolumesSaga } from '../../src/sandboxes/volumes/volumes.saga.ts';

const settings: Partial<AgentSettings> = { image: 'auto', image_name: null, template_id: 'hello' };
const MIB = 1024 * 1024;

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, environment: { MOORING_VOLUME_MAX_MB: '2' } });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});
afterAll(() => server?.close());

const path = (agentId: string, action = '') => `/api/v1/agents/${agentId}${action === '' ? '' : `/${action}`}`;
const ask = (method: string, where: string) => server.request(method, where, { credential: 'mk_acme', headers: { prefer: 'wait=25' } });
const big = (agentId: string) => join(server.config.dataDir, 'local', 'test', 'volumes', agentId, 'big');
const look = () => server.app.get(VolumesSaga, { strict: false }).reconcile('all', freePass());
const becomes = (agentId: string, wanted: string) =>
  until(`${agentId} is ${wanted}`, async () => ((await bed.load(agentId)).state?.status === wanted ? true : undefined));
const ended = (agentId: string) =>
  until('the container has ended', async () =>
    (await faulty.inner.inspect(agentId)).containers.every(({ state }) => state === 'exited') ? true : undefined,
  );

async function deployed(): Promise<string> {
  const agentId = await bed.created('acme', settings);
  expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ status: 200, json: { status: 'active' } });
  return agentId;
}

describe('an agent whose volume is larger than allowed', () => {
  it('is stopped, which its message and its log say, and runs again when there is room', async () => {
    const [full, other] = [await deployed(), await deployed()];
    await writeFile(big(full), Buffer.alloc(3 * MIB));
    await writeFile(big(other), Buffer.alloc(MIB));
    await until('the rows have come as far as the log', async () => {
      await look();
      return (await bed.load(full)).state?.status === 'error' ? true : undefined;
    });
    await ended(full);
    const reason = /^Its volume holds \d+ MiB, and 2 MiB is the most\./;
    expect((await ask('GET', path(full))).json).toMatchObject({ status: 'error', message: expect.stringMatching(reason) });
    const event = (await bed.events(full)).find(({ type }) => type === 'AgentFailed');
    expect(event).toMatchObject({ data: { kind: 'volume', during: 'active' }, metadata: { actor: { id: 'volumes' }, account_id: 'acme' } });
    const logged = (await ask('GET', path(full, 'logs'))).text;
    expect(logged).toContain('2 MiB is the most');
    expect((await bed.load(other)).state?.status).toBe('active');

    await rm(big(full));
    await ask('POST', path(full, 'start'));
    await becomes(full, 'active');
    await look();
    expect((await bed.load(full)).state?.status).toBe('active');
  });

  it('is stopped also while it sleeps, if it wrote before', async () => {
    const agentId = await deployed();
    await writeFile(big(agentId), Buffer.alloc(3 * MIB));
    await ask('POST', path(agentId, 'sleep'));
    await until('it is seen', async () => {
      await look();
      return (await bed.load(agentId)).state?.status === 'error' ? true : undefined;
    });
    await ended(agentId);
  });
});
