import { agentStream, type AgentSettings } from '../agents/index.ts';
import { Activity } from '../../sandboxes/services.ts';
import { systemContext } from '../../kernel/context/command-context.ts';
import { Clock } from '../../kernel/clock.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { EventStore, type StoredEvent } from '../../eventsourcing/event-store/event-store.ts';
import { AgentFixture } from '../../../test/support/agent-fixture.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../../../test/support/faulty-runtime.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import { runningFeatures } from '../../../test/support/features.ts';
import type { TestServer } from '../../../test/support/http-server.ts';
import { quickRetries } from '../../../test/support/intervals.ts';
import { freePass } from '../../../test/support/saga-pass.ts';
import { until } from '../../../test/support/until.ts';
import { Sagas } from '../../eventsourcing/sagas/saga.ts';
import { secretsDecider, secretsStream } from '../secrets/secrets.decider.ts';
import { DeploymentsSaga } from './deployments.saga.ts';

const settings: Partial<AgentSettings> = { image: 'auto', image_name: null, template_id: 'hello' };
const credential = 'mk_acme';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, environment: { MOORING_DEEP_SLEEP_AFTER: '2' }, intervals: quickRetries });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
});

afterAll(async () => {
  await server?.close();
});

afterEach(() => {
  jest.restoreAllMocks();
  faulty.imageWork = () => Promise.resolve();
});

const ask = (method: string, path: string, json?: unknown, wait = 25) =>
  server.request(method, path, { credential, json, headers: { prefer: `wait=${wait}` } });
const path = (agentId: string, action = '') => `/api/v1/agents/${agentId}${action === '' ? '' : `/${action}`}`;
const created = (more: Partial<AgentSettings> = {}) => bed.created('acme', { ...settings, ...more });

async function deployed(more: Partial<AgentSettings> = {}): Promise<string> {
  const agentId = await created(more);
  expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ status: 200, json: { status: 'active' } });
  return agentId;
}

const status = async (agentId: string) => (await bed.load(agentId)).state?.status;
const becomes = (agentId: string, wanted: string) =>
  until(`${agentId} is ${wanted}`, async () => ((await status(agentId)) === wanted ? true : undefined));
const states = async (agentId: string) => (await faulty.inner.inspect(agentId)).containers.map(({ state }) => state);
const failures = (agentId: string) => server.logLines.filter((line) => line.includes(`failed for ${agentId}`));

async function reach(agentId: string, route: string): Promise<string> {
  // The container that was replaced may not have been removed yet.
  const container = (await faulty.inner.inspect(agentId)).containers.find(({ state }) => state === 'running');
  const { host, port } = await faulty.inner.address({ agentId, generation: container?.generation ?? 0 }, 8080);
  return (await fetch(`http://${host}:${port}/${route}`)).text();
}

async function streamOf(stream: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of server.app.get(EventStore, { strict: false }).readStream(stream)) events.push(event);
  return events;
}

describe('an agent', () => {
  it('needs a pass when its idle time changes, but not when its name or description does', async () => {
    const agentId = await created();
    await ask('PATCH', path(agentId), { name: 'another', description: 'new words' });
    await ask('PATCH', path(agentId), { name: 'a third', idle_ttl_seconds: 77 });
    const saga = server.app.get(DeploymentsSaga, { strict: false });
    const changes = (await streamOf(agentStream(agentId))).filter(({ type }) => type === 'AgentConfigured');
    // A resync may look at any agent at any time, so the saga itself is asked about each change.
    expect(changes.map((event) => saga.keyOf(event))).toEqual([null, agentId]);
  });

  it('runs in one container after another, on one volume, until it is deleted', async () => {
    const agentId = await deployed();
    expect(await states(agentId)).toEqual(['running']);
    expect(await ask('POST', path(agentId, 'sleep'))).toMatchObject({ status: 200, json: { status: 'sleeping' } });
    expect(await states(agentId)).toEqual(['frozen']);
    expect(await ask('POST', path(agentId, 'start'))).toMatchObject({ json: { status: 'active' } });
    expect(await ask('POST', path(agentId, 'stop'))).toMatchObject({ json: { status: 'stopped' } });
    expect(await states(agentId)).toEqual(['exited']);
    expect(await ask('POST', path(agentId, 'start'))).toMatchObject({ json: { status: 'active' } });
    expect(await ask('POST', path(agentId, 'restart'))).toMatchObject({ json: { status: 'active' } });
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ json: { status: 'active' } });
    await until('the older container is removed', async () => ((await states(agentId)).join() === 'running' ? true : undefined));
    // Each start of the program is counted on the volume.
    expect(await reach(agentId, 'starts')).toBe('4');
    expect(failures(agentId)).toEqual([]);
    expect(await ask('DELETE', path(agentId))).toMatchObject({ status: 204 });
    expect(await faulty.inner.inspect(agentId)).toEqual({ containers: [], volume: false });
    expect((await ask('GET', path(agentId))).status).toBe(404);
  });

  it('gets its variables, but those of the platform take precedence', async () => {
    const agentId = await created();
    await ask('POST', path(agentId, 'env'), { key: 'COLOUR', value: 'blue' });
    await ask('POST', path(agentId, 'deploy'));
    const { environment } = JSON.parse(await reach(agentId, 'environment')) as { environment: Record<string, string> };
    expect(environment).toMatchObject({ COLOUR: 'blue', MOORING_AGENT_ID: agentId, MOORING_AGENT_NAME: 'helper' });
  });

  it('takes the present value of a secret of the account at each boot, and does not boot without the secret', async () => {
    const agentId = await created();
    const told = async () => (JSON.parse(await reach(agentId, 'environment')) as { environment: Record<string, string> }).environment.TOKEN;
    expect((await ask('PUT', '/api/v1/secrets/boot', { value: 'the first value' })).status).toBe(201);
    expect((await ask('POST', path(agentId, 'env'), { key: 'TOKEN', secret: 'boot' })).status).toBe(201);
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ json: { status: 'active' } });
    expect(await told()).toBe('the first value');
    expect((await ask('PUT', '/api/v1/secrets/boot', { value: 'the second value' })).status).toBe(200);
    expect(await told()).toBe('the first value');
    expect(await ask('POST', path(agentId, 'restart'))).toMatchObject({ json: { status: 'active' } });
    expect(await told()).toBe('the second value');

    // Only a removal at the same moment as the reference leaves a variable without its secret.
    const aggregates = server.app.get(Aggregates, { strict: false });
    const removal = { type: 'RemoveSecret' as const, accountId: 'acme', name: 'boot', users: { agentIds: [], total: 0 } };
    await aggregates.execute(secretsStream('acme'), secretsDecider, removal, systemContext('test', 'acme'));
    const failed = await ask('POST', path(agentId, 'deploy'));
    expect(failed.json).toMatchObject({
      status: 'error',
      message: expect.stringContaining('The variable TOKEN takes its value from the secret boot, which does not exist.'),
    });
    await ask('PUT', '/api/v1/secrets/boot', { value: 'the third value' });
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ json: { status: 'active' } });
    expect(await told()).toBe('the third value');
  });

  it('sleeps when it is idle, deeper after a while, and wakes to a fresh start', async () => {
    const agentId = await deployed({ idle_ttl_seconds: 1 });
    await becomes(agentId, 'sleeping');
    await until('it sleeps deeply', async () => ((await bed.load(agentId)).state?.sleepDepth === 'stopped' ? true : undefined));
    expect(await states(agentId)).toEqual(['exited']);
    expect(await ask('POST', path(agentId, 'start'))).toMatchObject({ json: { status: 'active' } });
    await ask('POST', path(agentId, 'stop'));
  });

  it('is not put to sleep while it works', async () => {
    const agentId = await deployed();
    const hold = await server.app.get(Activity, { strict: false }).hold(agentId);
    await ask('POST', path(agentId, 'sleep'), undefined, 0);
    expect(await ask('POST', path(agentId, 'sleep'), undefined, 2)).toMatchObject({ status: 202, json: { status: 'stopping' } });
    expect(await states(agentId)).toEqual(['running']);
    hold.release();
    await becomes(agentId, 'sleeping');
  });

  it('is started again if the start of a killed service came into effect late, without its variables', async () => {
    const agentId = await created();
    const inspect = faulty.inner.inspect.bind(faulty.inner);
    const start = faulty.inner.start.bind(faulty.inner);
    const ended = jest.spyOn(faulty.inner, 'inspect');
    jest
      .spyOn(faulty.inner, 'start')
      .mockImplementation((handle, environment) => {
        ended.mockImplementation(inspect);
        return start(handle, environment);
      })
      .mockImplementationOnce(() => {
        ended.mockImplementation(async (id) => {
          const { containers, volume } = await inspect(id);
          return { containers: containers.map((each) => ({ ...each, state: 'exited', exitCode: 125, notBegun: true })), volume };
        });
        return Promise.resolve(false);
      });
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ status: 200, json: { status: 'active' } });
    expect(await states(agentId)).toEqual(['running']);
  });

  it('gets a new container if its container was removed by hand', async () => {
    const agentId = await deployed();
    await faulty.inner.remove(`${agentId}-g1`);
    await until('a second container runs', async () =>
      (await bed.load(agentId)).state?.generation === 2 && (await status(agentId)) === 'active' ? true : undefined,
    );
    expect(await states(agentId)).toEqual(['running']);
  });

  it('restarts after a crash, and is in error after five crashes in a row', async () => {
    const agentId = await deployed();
    const clock = server.app.get(Clock, { strict: false });
    let aheadMs = 0;
    jest.spyOn(clock, 'now').mockImplementation(() => new Date(Date.now() + aheadMs));
    /** Sets the clock to the time of the next restart, which is up to 8 s after the crash. */
    const passWait = async () => {
      const exit = (await bed.events(agentId)).findLast(({ type }) => type === 'ContainerExited');
      const at = Date.parse((exit?.data.restart as { at: string } | null)?.at ?? '');
      if (!(at > clock.now().getTime())) return;
      aheadMs = at - Date.now();
      server.app.get(Sagas, { strict: false }).wake('deployments', agentId);
    };
    await reach(agentId, 'exit').catch(() => undefined);
    await until('it is back', async () => ((await bed.load(agentId)).state?.generation === 2 ? true : undefined));
    await becomes(agentId, 'active');
    await ask('POST', path(agentId, 'env'), { key: 'EXIT', value: '9' });
    await reach(agentId, 'exit').catch(() => undefined);
    await until('it is in error', async () => ((await status(agentId)) === 'error' ? true : passWait()));
    const exits = (await bed.events(agentId)).filter(({ type }) => type === 'ContainerExited');
    expect(exits.map(({ data }) => [data.crashes, data.exit_code])).toEqual([
      [1, 4],
      [2, 4],
      [3, 9],
      [4, 9],
      [5, 9],
    ]);
  });

  it('does not change, and nothing is written, when its pass is repeated', async () => {
    const agentId = await deployed();
    const saga = server.app.get(DeploymentsSaga, { strict: false });
    const before = await bed.events(agentId);
    const run = () => saga.reconcile(agentId, freePass());
    const due = await run();
    expect(await run()).toEqual(due);
    expect(await bed.events(agentId)).toEqual(before);
    expect(await states(agentId)).toEqual(['running']);
  });
});

describe('a deployment', () => {
  it('is left alone by a process that lost its lease during a pass', async () => {
    let go: () => void = () => undefined;
    faulty.imageWork = () => new Promise((resolve) => (go = resolve));
    const agentId = await created();
    await ask('POST', path(agentId, 'deploy'), undefined, 0);
    const stands = async () => ((await bed.events(agentId)).some(({ type }) => type === 'DeploymentStarted') ? true : undefined);
    await until('it has begun', stands);
    const before = await bed.events(agentId);
    const elsewhere = () => {
      throw new Error('another process is at it');
    };
    const saga = server.app.get(DeploymentsSaga, { strict: false });
    await expect(saga.reconcile(agentId, freePass({ assertLease: elsewhere }))).rejects.toThrow('another process is at it');
    expect(await bed.events(agentId)).toEqual(before);
    expect(await states(agentId)).toEqual([]);
    go();
    await becomes(agentId, 'active');
  });

  it('keeps a log without the agent’s secrets', async () => {
    const agentId = await created();
    await ask('POST', path(agentId, 'env'), { key: 'TOKEN', value: 'hush-hush-42', is_secret: true });
    faulty.imageWork = async (log) => log('fetched with hush-hush-42');
    await ask('POST', path(agentId, 'deploy'));
    const [record] = (await ask('GET', path(agentId, 'deployments'))).json;
    expect(record).toMatchObject({ status: 'success', source: 'template', agent_id: agentId });
    expect(record.build_log).toContain('fetched with ');
    expect(record.build_log).not.toContain('hush-hush');
    const log = await ask('GET', path(agentId, `deployments/${record.id}/log`));
    expect(log.text).toBe(record.build_log);
    const captured = await streamOf(`deployment-${record.id}`);
    expect(captured.map(({ type }) => type)).toContain('BuildLogCaptured');
    expect(JSON.stringify(captured)).not.toContain('hush-hush');
  });

  it('is not restarted when a variable is set during it', async () => {
    const agentId = await created();
    let begun = 0;
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    faulty.imageWork = (_, signal) => {
      begun += 1;
      return Promise.race([finished, new Promise<void>((__, reject) => signal.addEventListener('abort', () => reject(signal.reason)))]);
    };
    await ask('POST', path(agentId, 'deploy'), undefined, 0);
    await until('the image is being made', () => (begun > 0 ? true : undefined));
    await ask('POST', path(agentId, 'env'), { key: 'LATE', value: 'yes' });
    await bed.says(agentId, { type: 'ConfigureAgent', accountId: 'acme', changes: { description: 'changed' } });
    finish();
    await becomes(agentId, 'active');
    expect([begun, failures(agentId)]).toEqual([1, []]);
  });

  it('says in its record and in its log why it failed', async () => {
    const agentId = await created();
    await ask('POST', path(agentId, 'env'), { key: 'EXIT', value: '3' });
    await ask('POST', path(agentId, 'env'), { key: 'PRINT', value: Buffer.from('no such port\n').toString('base64') });
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ json: { status: 'error' } });
    const [record] = (await ask('GET', path(agentId, 'deployments'))).json;
    expect(record).toMatchObject({ status: 'failed', message: expect.stringContaining('exit code 3') });
    expect(record.build_log).toContain('no such port');
    await until('its container is gone, not its volume', async () => {
      const { containers, volume } = await faulty.inner.inspect(agentId);
      return containers.length === 0 && volume ? true : undefined;
    });
  });

  it.each([
    ['deleted', 'DELETE', '', 204],
    ['stopped', 'POST', 'stop', 200],
  ])('is canceled when its agent is %s', async (outcome, method, action, answered) => {
    const agentId = await created();
    let making: AbortSignal | undefined;
    faulty.imageWork = (_, signal) => {
      making = signal;
      return new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    };
    const { json } = await ask('POST', path(agentId, 'deploy'), undefined, 0);
    await until('the image is being made', () => making);
    expect((await ask(method, path(agentId, action))).status).toBe(answered);
    await becomes(agentId, outcome);
    expect(making?.aborted).toBe(true);
    expect(await faulty.inner.inspect(agentId)).toEqual({ containers: [], volume: false });
    const canceled = (await bed.events(agentId)).find(({ type }) => type === 'DeploymentCanceled');
    expect(canceled?.data).toMatchObject({ deployment_id: json.deployment_id });
  });

  it('is refused while another one runs, and if its source is a repository at a private address', async () => {
    const agentId = await created();
    let finish: (() => void) | undefined;
    faulty.imageWork = () => new Promise((resolve) => (finish = resolve));
    await ask('POST', path(agentId, 'deploy'), undefined, 0);
    expect(await ask('POST', path(agentId, 'deploy'))).toMatchObject({ status: 409, json: { code: 'deploy_in_progress' } });
    await until('the image is being made', () => finish);
    finish?.();
    await becomes(agentId, 'active');
    faulty.imageWork = () => Promise.resolve();
    const repository = await ask('POST', path(agentId, 'deploy'), { repo_url: 'https://127.0.0.1/a' });
    expect(repository).toMatchObject({ status: 400, json: { code: 'invalid_request', errors: [{ field: 'repo_url' }] } });
    const rest = { agentId, source: 'github', repoUrl: 'https://127.0.0.1/a' };
    expect(await ask('POST', '/api/deploy', rest)).toMatchObject({ status: 400, json: { errors: [{ field: 'repoUrl' }] } });
    expect((await ask('POST', '/api/deploy', { agentId, source: 'template', templateId: 'hello' })).json).toMatchObject({ agentId });
    await becomes(agentId, 'active');
  });
});

describe('an engine that fails once', () => {
  const CALLS = 9;

  it.each(['before', 'after'] as const)('%s any one call leaves one container that runs', async (when) => {
    const agents = await Promise.all(Array.from({ length: CALLS }, () => created()));
    agents.forEach((agentId, index) => faulty.failAt(agentId, { call: index + 1, when }));
    await Promise.all(agents.map((agentId) => ask('POST', path(agentId, 'deploy'), undefined, 0)));
    for (const agentId of agents) {
      await becomes(agentId, 'active');
      expect(await states(agentId)).toEqual(['running']);
      expect(await reach(agentId, 'starts')).toBe('1');
    }
    expect(agents.filter((agentId) => faulty.failed(agentId)).length).toBeGreaterThanOrEqual(5);
    agents.forEach((agentId, index) => faulty.failAt(agentId, { call: index + 1, when }));
    await Promise.all(agents.map((agentId) => ask('DELETE', path(agentId), undefined, 0)));
    for (const agentId of agents) expect(await faulty.inner.inspect(agentId)).toEqual({ containers: [], volume: false });
  });
});
