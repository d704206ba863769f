import { v7 as uuidv7 } from 'uuid';

import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import type { TestResponse, TestServer } from '../../../test/support/http-server.ts';
import { until } from '../../../test/support/until.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer(features);
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
  await bed.account('other', 100);
});
afterAll(() => server?.close());
afterEach(() => {
  faulty.imageWork = () => Promise.resolve();
});

const ask = (method: string, path: string, json?: unknown, wait = 25, credential = 'mk_acme') =>
  server.request(method, path, { credential, json, headers: { prefer: `wait=${wait}` } });
const agent = (id: string, rest = '') => `/api/v1/agents/${id}${rest}`;
const created = () => bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
const deploy = (id: string, wait?: number) => ask('POST', agent(id, '/deploy'), undefined, wait);
const cancel = (id: string, deploymentId: string, wait?: number, credential?: string) =>
  ask('POST', agent(id, `/deployments/${deploymentId}/cancel`), undefined, wait, credential);
const rollBack = (id: string, json?: object, wait?: number, credential?: string) =>
  ask('POST', agent(id, '/rollback'), json, wait, credential);
const record = async (id: string, deploymentId: string) =>
  ((await ask('GET', agent(id, '/deployments'))).json as { id: string; status: string }[]).find((row) => row.id === deploymentId);
const idOf = ({ json }: TestResponse) => json.deployment_id as string;

/** Holds back the work on images. The promise resolves when that work begins, with one that resolves when it is called off. */
function holdImages(): Promise<{ calledOff: Promise<void> }> {
  return new Promise((begun) => {
    faulty.imageWork = (_, signal) =>
      new Promise((_resolve, reject) => {
        begun({ calledOff: new Promise((calledOff) => signal.addEventListener('abort', () => calledOff())) });
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
  });
}

describe('a deployment that is canceled', () => {
  it('ends its work, is recorded as canceled, and stops an agent that never ran', async () => {
    const id = await created();
    const held = holdImages();
    const deploymentId = idOf(await deploy(id, 0));
    const { calledOff } = await held;
    expect(await cancel(id, deploymentId)).toMatchObject({ json: { deployment_id: deploymentId, status: 'stopped' } });
    await calledOff;
    expect(await record(id, deploymentId)).toMatchObject({ status: 'canceled', message: 'a caller canceled it' });
    expect((await faulty.inner.inspect(id)).containers).toEqual([]);
    expect(await ask('POST', agent(id, '/start'))).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
  });

  it('deploys the earlier release again', async () => {
    const id = await created();
    expect(await deploy(id)).toMatchObject({ json: { status: 'active' } });
    const { release } = (await bed.load(id)).state ?? {};
    const held = holdImages();
    const deploymentId = idOf(await deploy(id, 0));
    await held;
    expect(await cancel(id, deploymentId)).toMatchObject({ json: { status: 'active' } });
    expect(await record(id, deploymentId)).toMatchObject({ status: 'canceled' });
    const { state } = await bed.load(id);
    expect(state).toMatchObject({ release, deployment: { id: deploymentId, status: 'canceled' } });
    const { containers } = await faulty.inner.inspect(id);
    expect(containers.map(({ state: itsState, generation }) => [itsState, generation])).toEqual([['running', state?.generation]]);
  });

  it('may be canceled twice, but not once it has ended', async () => {
    const id = await created();
    const held = holdImages();
    const deploymentId = idOf(await deploy(id, 0));
    await held;
    await cancel(id, deploymentId, 0);
    expect(await cancel(id, deploymentId, 0)).toMatchObject({ json: { deployment_id: deploymentId } });
    faulty.imageWork = () => Promise.resolve();
    const next = await until('the agent may be deployed', async () => {
      const answer = await deploy(id);
      return answer.json.status === 'active' ? answer : undefined;
    });
    for (const ended of [deploymentId, idOf(next)])
      expect(await cancel(id, ended)).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
  });

  it('is not found by another account, nor under an unknown id', async () => {
    const id = await created();
    const deploymentId = idOf(await deploy(id));
    expect(await cancel(id, deploymentId, 0, 'mk_other')).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
    expect(await cancel(id, uuidv7())).toMatchObject({ status: 404, json: { code: 'not_found' } });
  });
});

describe('a rollback', () => {
  it('deploys the image of the last success before, without a build', async () => {
    const id = await created();
    const first = idOf(await deploy(id));
    const { release } = (await bed.load(id)).state ?? {};
    const held = holdImages();
    const failed = idOf(await deploy(id, 0));
    await held;
    await cancel(id, failed);
    faulty.imageWork = () => Promise.resolve();
    const answer = await rollBack(id);
    expect(answer).toMatchObject({ json: { status: 'active', deployment_id: expect.not.stringMatching(failed) } });
    const { state } = await bed.load(id);
    expect(state?.release).toEqual({ ...release, deploymentId: idOf(answer) });
    const requested = (await bed.events(id)).filter(({ type }) => type === 'DeploymentRequested').at(-1);
    expect(requested?.data).toMatchObject({
      source: 'template',
      template_id: 'hello',
      earlier: { deployment_id: first, image: release?.image },
    });
    const { text } = await ask('GET', agent(id, `/deployments/${idOf(answer)}/log`));
    expect(text).toContain('as it was deployed before');
  });

  it('goes to the deployment that the caller names, if that succeeded', async () => {
    const id = await created();
    const first = idOf(await deploy(id));
    await deploy(id);
    const answer = await rollBack(id, { deployment_id: first.toUpperCase() });
    expect(answer).toMatchObject({ json: { status: 'active' } });
    const requested = (await bed.events(id)).filter(({ type }) => type === 'DeploymentRequested').at(-1);
    expect(requested?.data).toMatchObject({ earlier: { deployment_id: first } });
    expect(await rollBack(id, { deployment_id: uuidv7() })).toMatchObject({ status: 404, json: { code: 'not_found' } });
    expect(await rollBack(id, { deployment_id: 'first' })).toMatchObject({ status: 400 });
  });

  it('is refused where nothing succeeded before, and while a deployment runs', async () => {
    const id = await created();
    expect(await rollBack(id)).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
    const only = idOf(await deploy(id));
    expect(await rollBack(id)).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
    const held = holdImages();
    const running = idOf(await deploy(id, 0));
    await held;
    expect(await rollBack(id, { deployment_id: only })).toMatchObject({ status: 409, json: { code: 'deploy_in_progress' } });
    expect(await rollBack(id, { deployment_id: running })).toMatchObject({ status: 409, json: { code: 'invalid_state' } });
    await cancel(id, running);
  });

  it('is not found by another account', async () => {
    const id = await created();
    expect(await rollBack(id, {}, 0, 'mk_other')).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
  });
});

describe('the build log of a deployment in progress', () => {
  it('is streamed as it grows, and ends with the record', async () => {
    const id = await created();
    let proceed = () => {};
    const going = new Promise<void>((resolve) => (proceed = resolve));
    faulty.imageWork = async (log) => {
      log('the first step');
      await going;
      log('the second step');
    };
    const deploymentId = idOf(await deploy(id, 0));
    const frames = framesOf(await stream(agent(id, `/deployments/${deploymentId}/log`)));
    const lines: string[] = [];
    for await (const { event, data } of frames) {
      if (event === 'lines') lines.push(...(data as string[]));
      if (lines.includes('the first step')) proceed();
      if (event === 'end') {
        expect(data).toMatchObject({ id: deploymentId, status: 'success' });
        break;
      }
    }
    expect(lines.indexOf('the second step')).toBeGreaterThan(lines.indexOf('the first step'));
    const { text } = await ask('GET', agent(id, `/deployments/${deploymentId}/log`));
    expect(text).toBe(lines.join('\n'));
  });

  it('continues after the last piece that the reader received', async () => {
    const id = await created();
    const deploymentId = idOf(await deploy(id));
    const path = agent(id, `/deployments/${deploymentId}/log`);
    const whole = await all(framesOf(await stream(path)));
    expect(whole.at(-1)?.event).toBe('end');
    const rest = await all(framesOf(await stream(path, { 'last-event-id': whole[0]?.id ?? '' })));
    expect(rest).toEqual(whole.slice(1));
  });
});

interface Frame {
  id?: string;
  event?: string;
  data: unknown;
}

async function stream(path: string, headers: Record<string, string> = {}): Promise<AsyncIterable<Uint8Array>> {
  const { body } = await fetch(`${server.url}${path}`, { headers: { 'x-api-key': 'mk_acme', accept: 'text/event-stream', ...headers } });
  return body as unknown as AsyncIterable<Uint8Array>;
}

async function* framesOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  let rest = '';
  for await (const chunk of bytes) {
    const parts = (rest + Buffer.from(chunk).toString()).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const members = Object.fromEntries(part.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2))) as Record<string, string>;
      if (members.data !== undefined) yield { id: members.id, event: members.event, data: JSON.parse(members.data) };
    }
  }
}

async function all(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const found: Frame[] = [];
  for await (const frame of frames) found.push(frame);
  return found;
}

it('nothing of a deployment, a rollback or a cancellation is written if the wait that the caller prefers is not one', async () => {
  const id = await created();
  const held = holdImages();
  const deploymentId = idOf(await deploy(id, 0));
  await held;
  // The beginning of the work is recorded beside the work.
  await until('the deployment has begun', async () => ((await bed.load(id)).state?.deployment?.status === 'building' ? true : undefined));
  const { revision } = await bed.load(id);
  for (const asked of [await cancel(id, deploymentId, 1.5), await rollBack(id, undefined, 1.5), await deploy(await created(), 1.5)])
    expect(asked).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field: 'Prefer' }] } });
  expect(await bed.load(id)).toMatchObject({ revision, state: { status: 'deploying' } });
  await cancel(id, deploymentId);
});
