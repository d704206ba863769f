import { AgentFixture } from '../../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../../test/support/features.ts';
import type { TestServer } from '../../../../test/support/http-server.ts';
import { quickRetries } from '../../../../test/support/intervals.ts';
import { until } from '../../../../test/support/until.ts';
import { Database } from '../../../postgres/database/database.ts';
import { RuntimeUnavailable } from '../../../runtime/runtime.errors.ts';
import { ImageAttempts } from './image-attempts.service.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;
let attempts: ImageAttempts;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, intervals: quickRetries });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
  attempts = server.app.get(ImageAttempts, { strict: false });
});
afterAll(() => server?.close());

/** Begins an attempt whose process dies in the middle. */
async function lost(deploymentId: string): Promise<void> {
  await new Promise<void>((begun) => {
    void attempts.run(deploymentId, () => {
      begun();
      return new Promise<void>(() => {});
    });
  });
}
const rows = async () => server.app.get(Database).query('select deployment_id from image_attempts');
const attempt = (deploymentId: string) => attempts.run(deploymentId, () => Promise.resolve('made'));

describe('an attempt to make an image available', () => {
  it('is refused after two that ended with the process, each time', async () => {
    await lost('poison');
    await lost('poison');
    for (let count = 0; count < 3; count += 1) await expect(attempt('poison')).rejects.toThrow(/^The service ended twice while/);
    expect(await attempt('another')).toBe('made');
  });

  it('that ended in a living process says nothing against the next ones', async () => {
    await lost('unlucky');
    expect(await attempt('unlucky')).toBe('made');
    for (let count = 0; count < 3; count += 1)
      await expect(attempts.run('unlucky', () => Promise.reject(new Error('the engine is away')))).rejects.toThrow('the engine is away');
    await lost('unlucky');
    expect(await attempt('unlucky')).toBe('made');
    expect(await rows()).not.toContainEqual({ deployment_id: 'unlucky' });
  });

  it('fails the deployment that may be the reason, and no longer has the service end', async () => {
    let tries = 0;
    faulty.imageWork = async (log) => {
      tries += 1;
      const [row] = (await rows()).filter(({ deployment_id }) => !['poison', 'another'].includes(String(deployment_id)));
      log('making the image');
      // The row that this attempt and one before it leave if their processes die.
      await server.app.get(Database).query('update image_attempts set begun = 2 where deployment_id = $1', [row?.deployment_id]);
      const end = jest.spyOn(ImageAttempts.prototype as unknown as { end: () => Promise<void> }, 'end');
      end.mockImplementationOnce(() => Promise.resolve());
      throw new RuntimeUnavailable(new Error('gone'));
    };
    const id = await bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
    await server.request('POST', `/api/v1/agents/${id}/deploy`, { credential: 'mk_acme' });
    await until('the deployment fails', async () => ((await bed.load(id)).state?.status === 'error' ? true : undefined));
    const failed = (await bed.events(id)).find(({ type }) => type === 'DeploymentFailed');
    expect(failed?.data).toMatchObject({ reason: expect.stringMatching(/^The service ended twice/) });
    expect(tries).toBe(1);
    jest.restoreAllMocks();
  });
});
