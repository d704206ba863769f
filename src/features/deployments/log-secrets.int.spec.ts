import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { quickRetries } from '../../../test/support/intervals.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, intervals: quickRetries });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});
afterAll(() => server?.close());
afterEach(() => {
  jest.restoreAllMocks();
  faulty.imageWork = () => Promise.resolve();
});

const ask = async (method: string, path: string, json?: unknown) => {
  const answer = await server.request(method, path, { credential: 'mk_acme', json, headers: { prefer: 'wait=25' } });
  expect(answer.status).toBeLessThan(300);
  return answer;
};

/** The values that the container gets. Those that it does not get are others. */
const given = {
  OWN: 'canary-own-1',
  REMOVED: 'canary-removed-1',
  LINKED: 'canary-linked-1',
  UNLINKED: 'canary-unlinked-1',
  LATE: 'canary-late-2',
};
const printed = `tokens ${Object.values(given).join(' ')} of the container\n`;

describe('the log of a deployment', () => {
  it('shows no secret that its container got, whatever was replaced, unlinked or removed before and after', async () => {
    const id = await bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    const env = (name: string) => `/api/v1/agents/${id}/env${name}`;
    const set = (key: string, value: string, isSecret = true) => ask('POST', env(''), { key, value, is_secret: isSecret });
    for (const name of ['linked', 'unlinked']) {
      await ask('PUT', `/api/v1/secrets/${name}`, { value: `canary-${name}-1` });
      await ask('POST', env(''), { key: name.toUpperCase(), secret: name });
    }
    await set('OWN', given.OWN);
    await set('REMOVED', given.REMOVED);
    await set('LATE', 'canary-late-1');
    await set('EXIT', '3', false);
    await set('PRINT', Buffer.from(printed).toString('base64'), false);
    // The log has been opened by then.
    faulty.imageWork = async (log) => {
      log('making the image');
      await set('LATE', given.LATE);
    };
    const create = faulty.inner.create.bind(faulty.inner);
    const creating = jest.spyOn(faulty.inner, 'create').mockImplementation(async (spec) => {
      const made = await create(spec);
      expect(spec.environment).toMatchObject(given);
      await set('OWN', 'canary-own-2');
      await set('LATE', 'canary-late-3');
      await ask('PUT', '/api/v1/secrets/linked', { value: 'canary-linked-2' });
      for (const name of ['REMOVED', 'UNLINKED']) await ask('DELETE', env(`/${name}`));
      await ask('DELETE', '/api/v1/secrets/unlinked');
      return made;
    });
    const { json } = await ask('POST', `/api/v1/agents/${id}/deploy`);
    expect(creating).toHaveBeenCalledTimes(1);
    expect(json).toMatchObject({ status: 'error' });
    const log = await ask('GET', `/api/v1/agents/${id}/deployments/${json.deployment_id}/log`);
    expect(log.text).toContain('making the image');
    expect(log.text).toContain('tokens •••••••• •••••••• •••••••• •••••••• •••••••• of the container');
    for await (const { data } of server.app.get(EventStore).readStream(`deployment-${json.deployment_id}`))
      expect(JSON.stringify(data)).not.toContain('canary');
  });
});
