import { Database } from '../../src/postgres/database/database.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { expectHidden } from '../support/secret-leak-probe.ts';
import { FaultyRuntimeModule, type FaultyRuntime } from '../support/faulty-runtime.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import { hostileDirectories, hostilePaths } from '../support/hostile-places.ts';
import type { TestResponse, TestServer } from '../support/http-server.ts';
import { quickRetries } from '../support/intervals.ts';
import { until } from '../support/until.ts';

let server: TestServer;
let bed: AgentFixture;
let faulty: FaultyRuntime;

beforeAll(async () => {
  const features = runningFeatures(FaultyRuntimeModule.forTest((opened) => (faulty = opened)));
  server = await startFeatureServer({ ...features, intervals: quickRetries });
  bed = new AgentFixture(server);
  await bed.account('acme', 100);
  await bed.account('other', 100);
});
afterAll(() => server?.close());

const ask = (method: string, path: string, json?: unknown, wait = 25, credential = 'mk_acme') =>
  server.request(method, path, { credential, json, headers: { prefer: `wait=${wait}` } });
const agent = (id: string, rest = '') => `/api/v1/agents/${id}${rest}`;
const created = () => bed.created('acme', { image: 'auto', image_name: null, template_id: 'hello' });
const store = (id: string, ...files: object[]) => ask('POST', agent(id, '/files'), { files });
const deploy = (id: string, wait?: number) => ask('POST', agent(id, '/deploy'), undefined, wait);
const idOf = ({ json }: TestResponse) => json.deployment_id as string;
const logOf = async (id: string, deploymentId: string) => (await ask('GET', agent(id, `/deployments/${deploymentId}/log`))).text;
const run = async (id: string, ...command: string[]) => (await ask('POST', `/api/agents/${id}/exec`, { command })).json;
const list = async (id: string) => (await ask('GET', agent(id, '/files'))).json as { path: string; size: number }[];
const contents = (id: string) => server.app.get(Database).query('select 1 from custom_file_contents where agent_id = $1', [id]);
/** A script that leaves its name in a file on the volume. */
const noting = (name: string) => `#!/bin/sh\necho "ran ${name}"\necho ${name} >> "$MOORING_VOLUME/ran"\n`;
const ran = async (id: string) => (await run(id, 'cat', '/data/ran')).stdout as string;

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('a custom file', () => {
  it('is put into the container, with its mode, and scripts run in the order given', async () => {
    const id = await created();
    expect(
      await store(
        id,
        { path: 'b.sh', content: noting('b') },
        { path: 'a.sh', content: 'echo plain >&2\n' + noting('a').slice(10), executable: false },
        { path: 'no.sh', content: noting('no'), run_on_deploy: false },
        { path: 'deep/er/notes.txt', content: 'überall', executable: false, target_dir: '/srv/texts' },
        { path: 'kept.txt', content: 'on the volume', target_dir: '/data' },
        { path: 'empty', content: '' },
      ),
    ).toMatchObject({ status: 201, json: { agent_id: id, files_count: 6, message: expect.stringContaining('6 custom files') } });
    const answer = await deploy(id);
    expect(answer).toMatchObject({ json: { status: 'active' } });
    expect(await ran(id)).toBe('b\na\n');
    expect((await run(id, 'cat', '/srv/texts/deep/er/notes.txt')).stdout).toBe('überall');
    expect((await run(id, 'cat', '/data/kept.txt')).stdout).toBe('on the volume');
    expect((await run(id, 'stat', '-c', '%a', '/service/scripts/b.sh')).stdout).toBe('755\n');
    expect((await run(id, 'stat', '-c', '%a %s', '/service/scripts/a.sh')).stdout).toMatch(/^644 /);
    expect((await run(id, 'stat', '-c', '%s', '/service/scripts/empty')).stdout).toBe('0\n');
    const log = await logOf(id, idOf(answer));
    const lines = log.split('\n').filter((line) => /custom script|ran |plain/.test(line));
    expect(lines.slice(0, 3)).toEqual([
      'Running the custom script /service/scripts/b.sh',
      'ran b',
      'Running the custom script /service/scripts/a.sh',
    ]);
    // Lines of the two outputs of a script may come in either order.
    expect(lines.slice(3).sort()).toEqual(['plain', 'ran a']);
  });

  it('is listed without its content, replaced in its place, and removed', async () => {
    const id = await created();
    await store(id, { path: 'one.sh', content: 'echo 1' }, { path: 'two.sh', content: 'echo 2' });
    expect(await store(id, { path: 'one.sh', content: 'echo one', executable: false })).toMatchObject({
      status: 201,
      json: { files_count: 1 },
    });
    const common = { target_dir: '/service/scripts', run_on_deploy: true, updated_at: expect.any(String) };
    expect(await list(id)).toEqual([
      { path: 'one.sh', size: 8, executable: false, ...common },
      { path: 'two.sh', size: 6, executable: true, ...common },
    ]);
    expect(await contents(id)).toHaveLength(2);
    expect(await ask('DELETE', agent(id, '/files?path=one.sh'))).toMatchObject({ status: 204 });
    expect(await ask('DELETE', agent(id, '/files?path=one.sh'))).toMatchObject({ status: 404, json: { code: 'file_not_found' } });
    expect((await list(id)).map(({ path }) => path)).toEqual(['two.sh']);
    expect(await contents(id)).toHaveLength(1);
    const answer = await deploy(id);
    expect(await logOf(id, idOf(answer))).not.toContain('one.sh');
  });

  it('is in each new container, and a script runs at deployments only', async () => {
    const id = await created();
    await store(id, { path: 'a.sh', content: noting('a') });
    await deploy(id);
    expect(await ask('POST', agent(id, '/restart'))).toMatchObject({ json: { status: 'active' } });
    expect((await run(id, 'cat', '/service/scripts/a.sh')).stdout).toBe(noting('a'));
    expect(await ran(id)).toBe('a\n');
    await deploy(id);
    expect(await ran(id)).toBe('a\na\n');
    expect(await ask('POST', agent(id, '/rollback'))).toMatchObject({ json: { status: 'active' } });
    expect(await ran(id)).toBe('a\na\na\n');
  });

  it('can’t be read or written by another account, and is deleted with its agent', async () => {
    const id = await created();
    await store(id, { path: 'a.sh', content: 'echo' });
    const file = { files: [{ path: 'b.sh', content: 'echo' }] };
    for (const [method, path, json] of [
      ['GET', '/files', undefined],
      ['POST', '/files', file],
      ['DELETE', '/files?path=a.sh', undefined],
    ] as const)
      expect(await ask(method, agent(id, path), json, 0, 'mk_other')).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
    expect(await contents(id)).toHaveLength(1);
    expect(await ask('DELETE', agent(id))).toMatchObject({ status: 204 });
    await until('its contents are gone', async () => ((await contents(id)).length === 0 ? true : undefined));
  });
});

describe('a custom script that fails', () => {
  it('fails the deployment with its output in the log, and no later script runs', async () => {
    const id = await created();
    await ask('POST', agent(id, '/env'), { key: 'TOKEN', value: 'very-secret-token', is_secret: true });
    await store(
      id,
      { path: '1.sh', content: 'echo "the token is $TOKEN"; echo no such package >&2; exit 3' },
      { path: '2.sh', content: 'echo never' },
    );
    const answer = await deploy(id);
    expect(answer).toMatchObject({ json: { status: 'error' } });
    const [record] = (await ask('GET', agent(id, '/deployments'))).json;
    expect(record).toMatchObject({ status: 'failed', message: 'The custom script /service/scripts/1.sh ended with exit code 3.' });
    const log = await logOf(id, idOf(answer));
    expect(log).toContain('no such package');
    expect(log).toMatch(/\nFailed at scripts: The custom script [^\n]*$/);
    expect(log).not.toContain('never');
    expect(log).not.toContain('very-secret-token');
    await until('its container is gone', async () => ((await faulty.inner.inspect(id)).containers.length === 0 ? true : undefined));
    await ask('DELETE', agent(id, '/files?path=1.sh'));
    expect(await deploy(id)).toMatchObject({ json: { status: 'active' } });
  });

  it.each([
    ['has an interpreter that does not exist', '#!/no/such/interpreter\n', 'exit code 127', 'is not there: /no/such/interpreter'],
    ['was saved with carriage returns', '#!/bin/sh\r\necho never\r\n', 'exit code 127', 'its first line ends in a carriage return'],
    ['kills itself', 'echo before; kill -9 $$', 'exit code 137', 'before'],
  ])('fails the deployment if it %s, and the log says so', async (_, content, message, said) => {
    const id = await created();
    await store(id, { path: 'a.sh', content });
    const answer = await deploy(id);
    expect(answer).toMatchObject({ json: { status: 'error', message: expect.stringContaining(message) } });
    expect(await logOf(id, idOf(answer))).toContain(said);
  });

  it('can print more than the log keeps', async () => {
    const id = await created();
    await store(id, { path: 'a.sh', content: 'yes "a long line" | head -c 3000000; printf "\\0 \\377"' });
    const answer = await deploy(id);
    expect(answer).toMatchObject({ json: { status: 'active' } });
    expect((await logOf(id, idOf(answer))).length).toBeLessThan(1_200_000);
  });

  it('is ended by a cancellation of the deployment', async () => {
    const id = await created();
    await deploy(id);
    await store(id, { path: 'a.sh', content: 'sleep 600 & echo "processes $$ $!"; wait' });
    const deploymentId = idOf(await deploy(id, 0));
    const pids = await until('the script runs', async () =>
      /processes (\d+) (\d+)/
        .exec(await logOf(id, deploymentId))
        ?.slice(1)
        .map(Number),
    );
    expect(pids.filter(isAlive)).toHaveLength(2);
    expect(await ask('POST', agent(id, `/deployments/${deploymentId}/cancel`))).toMatchObject({ json: { status: 'active' } });
    expect((await ask('GET', agent(id, '/deployments'))).json[0]).toMatchObject({ id: deploymentId, status: 'canceled' });
    await until('its processes are gone', () => (pids.some(isAlive) ? undefined : true));
  });
});

describe('an engine that fails once at an agent with custom files', () => {
  const CALLS = 12;

  it.each(['before', 'after'] as const)('%s any one call leaves one container with the files, whose scripts ran', async (when) => {
    const agents = await Promise.all(Array.from({ length: CALLS }, () => created()));
    for (const id of agents) await store(id, { path: 'a.sh', content: noting('a') }, { path: 'b', content: 'b' });
    agents.forEach((id, index) => faulty.failAt(id, { call: index + 1, when }));
    await Promise.all(agents.map((id) => deploy(id, 0)));
    let failed = 0;
    for (const id of agents) {
      await until(`${id} is active`, async () => ((await bed.load(id)).state?.status === 'active' ? true : undefined));
      if (faulty.takeBack(id)) failed += 1;
      expect((await faulty.inner.inspect(id)).containers.map(({ state }) => state)).toEqual(['running']);
      expect((await run(id, 'cat', '/service/scripts/b')).stdout).toBe('b');
      expect(await ran(id)).toMatch(/^a\n(a\n)?$/);
    }
    expect(failed).toBeGreaterThanOrEqual(7);
  });
});

describe('a request with custom files', () => {
  it('is refused as a whole if one place is bad, and says which field', async () => {
    const id = await created();
    const good = { path: 'good.sh', content: 'echo' };
    for (const path of hostilePaths)
      expect([path, await store(id, good, { path, content: 'x' })]).toMatchObject([
        path,
        { status: 400, json: { code: 'invalid_request' } },
      ]);
    for (const path of hostilePaths.filter((each) => !/[\0\ud800-\udfff]/.test(each)))
      expect((await store(id, good, { path, content: 'x' })).json.errors[0].field).toBe('files[1].path');
    for (const target_dir of hostileDirectories)
      expect(await store(id, good, { path: 'x', content: 'x', target_dir })).toMatchObject({ status: 400 });
    expect(await list(id)).toEqual([]);
    expect(await contents(id)).toEqual([]);
  });

  it.each([
    [{}, 'files'],
    [{ files: [] }, 'files'],
    [{ files: {} }, 'files'],
    [{ files: Array.from({ length: 101 }, (_, index) => ({ path: `${index}`, content: '' })) }, 'files'],
    [{ files: ['a'] }, 'files[0]'],
    [{ files: [null] }, 'files[0]'],
    [{ files: [{ path: 'a' }] }, 'files[0].content'],
    [{ files: [{ content: 'a' }] }, 'files[0].path'],
    [{ files: [{ path: 'a', content: 7 }] }, 'files[0].content'],
    [{ files: [{ path: 'a', content: 'a', executable: 'yes' }] }, 'files[0].executable'],
    [{ files: [{ path: 'a', content: 'a', run_on_deploy: null }] }, 'files[0].run_on_deploy'],
    [{ files: [{ path: 'a', content: 'a', target_dir: null }] }, 'files[0].target_dir'],
    [{ files: [{ path: 'a', content: 'a', mode: 511 }] }, 'files[0].mode'],
    [{ files: [{ path: 'a', content: 'x'.repeat(1_048_577) }] }, 'files[0].content'],
  ])('is refused with the name of the field: %#', async (body, field) => {
    const answer = await ask('POST', agent(await created(), '/files'), body);
    expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  });

  it('may have files of 1 MB, and 8 MiB in all', async () => {
    const id = await created();
    const files = (count: number) => Array.from({ length: count }, (_, index) => ({ path: `${index}`, content: 'x'.repeat(1_048_576) }));
    expect(await store(id, ...files(7))).toMatchObject({ status: 201, json: { files_count: 7 } });
    expect(await store(id, ...files(8))).toMatchObject({ status: 413, json: { code: 'payload_too_large' } });
    expect(await deploy(id)).toMatchObject({ json: { status: 'active' } });
    expect((await run(id, 'stat', '-c', '%s', '/service/scripts/6')).stdout).toBe('1048576\n');
  });

  it('leaves its contents in no event, log line, answer or table', async () => {
    const id = await created();
    const content = 'canary-of-a-custom-file-0123456789';
    const answers = [await store(id, { path: 'a.txt', content }), await ask('GET', agent(id, '/files')), await deploy(id)];
    answers.push(await ask('GET', agent(id, '/history')));
    expect(answers.at(-1)?.status).toBe(200);
    await expectHidden(server, content, answers);
  });
});
