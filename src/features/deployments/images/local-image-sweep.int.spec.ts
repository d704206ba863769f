import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { until } from '../../../../test/support/until.ts';
import { ImageSweep } from './image-sweep.service.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  server = await startFeatureServer(runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened))));
  bed = new AgentFixture(server);
  await bed.account('acme', 10);
});
afterAll(() => server?.close());

const ask = (method: string, path: string) => server.request(method, path, { credential: 'mk_acme', headers: { prefer: 'wait=25' } });
const isThere = (image: string) => faulty.inner.images.has(image);

it('a program that no agent runs or could go back to is removed from the local runtime', async () => {
  const agents = [];
  for (let count = 0; count < 2; count++) {
    const agentId = await bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    expect((await ask('POST', `/api/v1/agents/${agentId}/deploy`)).json.status).toBe('active');
    agents.push(agentId);
  }
  const image = (await bed.load(agents[0] ?? '')).state?.release?.image ?? '';
  const images = join(server.config.dataDir, 'local', 'images');
  await mkdir(join(images, 'of-nobody'));
  await mkdir(join(images, '.trash-of-a-killed-process'));
  await writeFile(join(images, 'of-nobody', 'file'), 'x'.repeat(10_000));
  const sweep = server.app.get(ImageSweep, { strict: false });

  await sweep.run(() => undefined);
  expect([await isThere(image), await isThere('of-nobody'), await isThere('.trash-of-a-killed-process')]).toEqual([true, false, false]);
  await ask('DELETE', `/api/v1/agents/${agents[0]}`);
  await sweep.run(() => undefined);
  expect(await isThere(image)).toBe(true);
  await ask('DELETE', `/api/v1/agents/${agents[1]}`);
  await until('the program is gone', async () => ((await isThere(image)) ? undefined : true));
});

it('packages that no build has used for a week are removed from the local runtime', async () => {
  const packages = join(server.config.dataDir, 'local', 'packages');
  for (const [key, days] of [
    ['old', 8],
    ['used', 6],
  ] as const) {
    await mkdir(join(packages, key), { recursive: true });
    await utimes(join(packages, key), new Date(), new Date(Date.now() - days * 86_400_000));
  }
  await server.app.get(ImageSweep, { strict: false }).run(() => undefined);
  expect(await readdir(packages)).toEqual(['used']);
});
