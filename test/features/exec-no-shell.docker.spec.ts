import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';

import { Module, type DynamicModule } from '@nestjs/common';
import Dockerode from 'dockerode';
import { WebSocket } from 'ws';

import { tarOf } from '../../src/runtime/docker/image-sources/build-context.ts';
import { importImage } from '../../src/runtime/docker/image-sources/registry.ts';
import { DockerRuntime } from '../../src/runtime/docker/docker-runtime.ts';
import { ContainerRuntime } from '../../src/runtime/runtime.ts';
import { AgentFixture } from '../support/agent-fixture.ts';
import { testContainerKey } from '../support/container-key.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { runningFeatures } from '../support/features.ts';
import type { TestServer } from '../support/http-server.ts';
import { removeInstance } from '../support/images.ts';
import { until } from '../support/until.ts';

const INSTANCE = randomBytes(6).toString('hex');
const IMAGE = `mooring-test-no-shell-${randomBytes(6).toString('hex')}:1`;

@Module({})
class EngineRuntime {}

/** Imports an image whose only program answers HTTP: it has no shell, and no folder in which one is looked for. */
async function importImageWithoutShell(docker: Dockerode): Promise<void> {
  const tar = tarOf([
    { name: 'www', type: 'directory', mode: 0o755 },
    { name: 'www/healthz', type: 'file', mode: 0o644, content: 'well' },
    { name: 'busybox', type: 'file', mode: 0o755, content: await readFile('/bin/busybox') },
  ]);
  const command = 'CMD ["/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]';
  await importImage(docker, tar, IMAGE, [command], AbortSignal.timeout(60_000));
}

describe('an agent whose image has no shell', () => {
  const docker = new Dockerode();
  let server: TestServer;
  let agentId: string;

  beforeAll(async () => {
    await importImageWithoutShell(docker);
    const containerKey = testContainerKey(INSTANCE);
    const useFactory = () =>
      new DockerRuntime({ instance: INSTANCE, containerKey, docker, helperImage: null, ociRuntime: null, egress: 'all' });
    const runtime: DynamicModule = {
      module: EngineRuntime,
      global: true,
      providers: [{ provide: ContainerRuntime, useFactory }],
      exports: [ContainerRuntime],
    };
    server = await startFeatureServer({ ...runningFeatures(runtime), environment: { MOORING_SHARED_IMAGES: IMAGE } });
    const bed = new AgentFixture(server);
    await bed.account('acme', 5);
    agentId = await bed.created('acme', { image: 'docker', image_name: IMAGE, template_id: null });
    const deployed = await server.request('POST', `/api/v1/agents/${agentId}/deploy`, {
      credential: 'mk_acme',
      headers: { prefer: 'wait=60' },
    });
    expect(deployed).toMatchObject({ status: 200, json: { status: 'active' } });
  });
  afterAll(async () => {
    await server?.close();
    await server?.app.get(ContainerRuntime, { strict: false }).close();
    await removeInstance(docker, INSTANCE, [IMAGE]);
  });

  const exec = async (command: unknown, timeout = 30) =>
    (await server.request('POST', `/api/agents/${agentId}/exec`, { credential: 'mk_acme', json: { command, timeout } })).json;

  it('runs a command with its arguments as they are', async () => {
    expect(await exec(['printf', '%s', 'a b;$(id)'])).toEqual({
      exitCode: 0,
      stdout: 'a b;$(id)',
      stderr: '',
      timedOut: false,
      truncated: false,
    });
    expect(await exec(['no-such-program'])).toMatchObject({ exitCode: 127 });
  });

  it('kills a command at its timeout, and leaves none of its processes', async () => {
    expect(await exec(['sleep', '300.5'], 1)).toMatchObject({ exitCode: 124, timedOut: true });
    expect((await exec(['ps'])).stdout).not.toContain('300.5');
  });

  it('cuts what a command prints', async () => {
    const flood = await exec(['head', '-c', '300000', '/dev/zero']);
    expect(flood).toMatchObject({ exitCode: 0, truncated: true });
    expect(flood.stdout).toHaveLength(256 * 1024);
  });

  it('has terminals with the helper’s shell, and a full-screen editor', async () => {
    const headers = { authorization: 'Bearer mk_acme' };
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/api/agents/${agentId}/terminal?cols=99&rows=33`, { headers });
    let shown = '';
    socket.on('message', (data: Buffer) => (shown += data.toString()));
    await once(socket, 'open');
    const type = async (keys: string, expected: RegExp) => {
      shown = '';
      socket.send(Buffer.from(keys));
      await until(`${JSON.stringify(keys)} shows`, () => (expected.test(shown) ? true : undefined));
    };
    await type('cd /data; until [ "$(stty size)" = "33 99" ]; do sleep 0.1; done; echo fol""lows\r', /follows/);
    await type('vi note\r', /~/);
    await type('ihello', /hello/);
    await type('\u001b', /- note/);
    await type(':wq\r', /1049l/);
    await type('echo "[$(cat note)]"\r', /\[hello\]/);
    socket.send(Buffer.from('exit 7\r'));
    const [code, reason] = (await once(socket, 'close')) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([1000, 'The shell ended with exit code 7.']);
  });

  it('runs custom scripts by the helper’s shell, unless they name one that is not there', async () => {
    const ask = (method: string, path: string, json?: unknown) =>
      server.request(method, `/api/v1/agents/${agentId}${path}`, { credential: 'mk_acme', json, headers: { prefer: 'wait=60' } });
    const log = async () => (await ask('GET', '/deployments')).json[0].build_log as string;
    await ask('POST', '/files', { files: [{ path: 'a.sh', content: 'echo "ran $0"' }] });
    expect(await ask('POST', '/deploy')).toMatchObject({ json: { status: 'active' } });
    expect(await log()).toContain('ran /service/scripts/a.sh');
    await ask('POST', '/files', { files: [{ path: 'a.sh', content: '#!/bin/sh\necho never' }] });
    expect(await ask('POST', '/deploy')).toMatchObject({ json: { status: 'error' } });
    expect(await log()).toContain('/service/scripts/a.sh: the interpreter that its first line names is not there: /bin/sh');
  });
});
