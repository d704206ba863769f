import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { FarEngine } from '../../../../test/support/far-engine.ts';
import { until } from '../../../../test/support/until.ts';
import { waitUntilReady } from '../../../agent-protocol/readiness.ts';
import { requestTo } from '../../../agent-protocol/agent-connection-pool.ts';
import { endpointOf } from '../../../agent-protocol/agent-endpoint.ts';
import type { ContainerView } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { DockerRuntime, type DockerRuntimeOptions } from '../docker-runtime.ts';
import { connectToEngine } from './engine-connection.ts';

jest.setTimeout(180_000);

const PORT = 8080;
const never = new AbortController().signal;
const server = ['/bin/busybox', 'httpd', '-f', '-p', String(PORT), '-h', '/www'];

/** A runtime on an engine of another machine, with what it logged. */
async function runtimeAt(
  environment: Record<string, string>,
  { instance, containerKey }: DockerFixture,
  { sshConfig = null, ...more }: Partial<DockerRuntimeOptions> & { sshConfig?: string | null } = {},
) {
  const said: string[] = [];
  const tell = (fields: object, message: string) => void said.push(`${message} ${JSON.stringify(fields)}`);
  const logger = { log: tell, warn: tell };
  const connection = await connectToEngine(environment, sshConfig, logger);
  const settings = { instance, containerKey, helperImage: null, ociRuntime: null, egress: 'all', logger } as const;
  return { runtime: new DockerRuntime({ ...settings, connection, ...more }), said };
}

async function running(runtime: DockerRuntime, bed: DockerFixture): Promise<ContainerView> {
  const view = await runtime.create(bed.spec({ command: server }));
  await runtime.start(view.handle, {});
  return view;
}

/** Asks the agent as chats do, and returns the status of its answer. */
async function asked(runtime: DockerRuntime, view: ContainerView): Promise<number | undefined> {
  const endpoint = endpointOf({ ...view, accountId: 'account', activeSince: null }, PORT, () => runtime.address(view, PORT));
  const [answer] = (await once(requestTo(endpoint, { path: '/none' }).end(), 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode;
}

/** Returns the command lines of all processes of this machine. */
function commandLines(): string[] {
  const read = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    } catch {
      return '';
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(read);
}

describe('an engine on another machine', () => {
  let far: FarEngine;
  let bed: DockerFixture;
  let tls: Record<string, string>;

  beforeAll(async () => {
    far = await FarEngine.open();
    tls = await far.startWithTls();
    bed = await DockerFixture.open(far.engine.docker, 'all', 'published');
  });
  afterAll(async () => {
    await bed?.runtime.close();
    await far?.close();
  });

  describe('that is reached by TCP with TLS', () => {
    const ports = () => ({ address: far.address, ports: '20000-20099', clients: [far.service] });

    it('has agents that only the service reaches, at the operator’s address', async () => {
      const { runtime } = await runtimeAt(tls, bed, { ports: ports() });
      const view = await running(runtime, bed);
      const { host, port } = await runtime.address(view, PORT);
      expect([host, port >= 20_000 && port <= 20_099]).toEqual([far.address, true]);
      expect(await waitUntilReady({ host, port }, { tcp: true }, 20_000, never)).toBe(true);
      expect(await asked(runtime, view)).toBe(404);
      const another = connect({ host, port, localAddress: far.stranger }).on('error', () => undefined);
      const passed = await Promise.race([once(another, 'connect').then(() => 'reached'), asked(runtime, view), asked(runtime, view)]);
      expect(passed).toBe(404);
      expect(another.connecting).toBe(true);
      another.destroy();
      expect(await runtime.agentPorts()).toEqual({ lack: null, weakness: expect.stringContaining('in clear') });
      await runtime.remove(view.handle);
      await runtime.close();
    });

    it('starts no agent there while the rules that keep others from it can’t be loaded', async () => {
      const { runtime, said } = await runtimeAt(tls, bed, { ports: { ...ports(), clients: ['no address'] } });
      const view = await runtime.create(bed.spec({ command: server }));
      await expect(runtime.start(view.handle, {})).rejects.toThrow(RuntimeRefused);
      expect(await runtime.agentPorts()).toMatchObject({ lack: expect.stringContaining('nft ended with 1') });
      expect(said).toContainEqual(expect.stringContaining('OTHERS ARE NOT KEPT FROM THE PORTS OF AGENTS'));
      await runtime.remove(view.handle);
      await runtime.close();
    });

    it('is refused if a certificate is missing, with its name', async () => {
      const folder = `${tls.DOCKER_CERT_PATH}-of-nobody`;
      await expect(runtimeAt({ ...tls, DOCKER_CERT_PATH: folder }, bed)).rejects.toThrow(/DOCKER_CERT_PATH must hold.*ca\.pem/);
    });
  });

  describe('that is reached by ssh', () => {
    let environment: Record<string, string>;
    let sshConfig: string;

    beforeAll(async () => {
      ({ environment, config: sshConfig } = await far.startSsh());
    });

    it('has agents that are reached through the same connection, by ports of its loopback', async () => {
      const { runtime } = await runtimeAt(environment, bed, { sshConfig });
      const view = await running(runtime, bed);
      const address = await runtime.address(view, PORT);
      expect(address).toMatchObject({ host: '127.0.0.1', relay: expect.stringContaining('mooring-ssh-') });
      expect(await waitUntilReady(address, { tcp: true }, 20_000, never)).toBe(true);
      expect(await waitUntilReady(address, { path: '/' }, 300, never)).toBe(false);
      for (let n = 0; n < 3; n += 1) expect(await asked(runtime, view)).toBe(404);
      const { stdout } = await runtime.exec(view.handle, {
        argv: ['cat'],
        stdin: Buffer.alloc(300_000, 'x'),
        timeoutMs: 20_000,
        outputLimitBytes: 400_000,
      });
      expect(stdout).toHaveLength(300_000);
      await runtime.remove(view.handle);
      await runtime.close();
    });

    it('has agents that are reached by their own addresses, too, where the operator says so', async () => {
      const { runtime } = await runtimeAt(environment, bed, { sshConfig, addresses: 'container' });
      const view = await running(runtime, bed);
      const address = await runtime.address(view, PORT);
      expect(address).toMatchObject({ host: expect.stringMatching(/^172\./), port: PORT, relay: expect.any(String) });
      expect(await waitUntilReady(address, { tcp: true }, 20_000, never)).toBe(true);
      expect(await asked(runtime, view)).toBe(404);
      await runtime.remove(view.handle);
      await runtime.close();
    });

    it('is unavailable without the connection, and everything continues when it is back', async () => {
      const { runtime, said } = await runtimeAt(environment, bed, { sshConfig });
      const view = await running(runtime, bed);
      expect(await waitUntilReady(await runtime.address(view, PORT), { tcp: true }, 20_000, never)).toBe(true);
      await far.cutSshOff();
      await until('the engine is known to be gone', async () => ((await runtime.available()) ? undefined : true));
      await far.letSshIn();
      await until('the engine is back', async () => ((await runtime.available()) ? true : undefined));
      expect(await asked(runtime, view)).toBe(404);
      expect(said).toContainEqual(expect.stringContaining('THE ENGINE CAN’T BE REACHED BY SSH'));
      await runtime.remove(view.handle);
      await runtime.close();
    });

    it('is left by ssh when the service is killed', async () => {
      const source = `
        import { connectToEngine } from './src/runtime/docker/engine/engine-connection.ts';
        const ignore = () => undefined;
        const { docker, relay } = await connectToEngine(process.env, process.env.SSH_CONFIG, { log: ignore, warn: ignore });
        await docker.ping();
        console.log(relay);`;
      const service = spawn(process.execPath, ['--import', './scripts/typescript.mjs', '--input-type=module', '-e', source], {
        env: { ...process.env, ...environment, SSH_CONFIG: sshConfig },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [relay] = (await once(service.stdout, 'data')) as [Buffer];
      const folder = dirname(relay.toString().trim());
      expect(commandLines().some((line) => line.includes(folder))).toBe(true);
      service.kill('SIGKILL');
      await until('ssh has ended', () => (commandLines().some((line) => line.includes(folder)) ? undefined : true));
      rmSync(folder, { recursive: true });
    });

    it('is refused if its key is not the known one', async () => {
      const { runtime, said } = await runtimeAt(environment, bed, { sshConfig: far.withoutKnownHosts(sshConfig) });
      await expect(runtime.ping()).rejects.toThrow('does not answer');
      expect(said).toEqual([expect.stringContaining('Host key verification failed.')]);
      await runtime.close();
    });
  });
});
