import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';

import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { PrivateEngine } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerSpec } from '../../container.ts';
import { ContainerGone, RuntimeRefused } from '../../runtime.errors.ts';
import { DockerRuntime } from '../docker-runtime.ts';

const server = ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'];

/** Asks the agent's server at an address of this machine. Returns the status of its answer. */
const asked = (host: string, port: number) =>
  until('the agent answers', () =>
    fetch(`http://${host}:${port}/none`).then(
      ({ status }) => status,
      () => undefined,
    ),
  );

/** Passes the connections to a port of this machine's loopback on to the same one of the engine's, as Docker Desktop does. */
class Forwarder {
  private readonly sockets = new Set<Socket>();
  private readonly relays = new Set<ChildProcess>();
  private server: Server | null = null;

  constructor(private readonly engine: PrivateEngine) {}

  async open(port: number): Promise<void> {
    const [program = '', ...words] = this.engine.inside;
    this.server = createServer((socket) => {
      const relay = spawn(program, [...words, 'busybox', 'nc', '127.0.0.1', String(port)], { stdio: ['pipe', 'pipe', 'ignore'] });
      this.relays.add(relay);
      this.sockets.add(socket.on('error', () => undefined));
      socket.pipe(relay.stdin.on('error', () => undefined));
      relay.stdout.pipe(socket);
    }).listen(port, '127.0.0.1');
    await once(this.server, 'listening');
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    for (const relay of this.relays) relay.kill('SIGKILL');
    this.server?.close();
  }
}

describe('an engine on the network of this machine', () => {
  let bed: DockerFixture;

  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed?.close());

  it('has agents that are reached by their own address, the first one included', async () => {
    const view = await bed.running({ command: server });
    const { host, port } = await bed.runtime.address(view, 8080);
    expect([host, port]).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+\.\d+$/), 8080]);
    expect(await asked(host, port)).toBe(404);
    const { HostConfig } = await bed.docker.getContainer(view.handle).inspect();
    expect(HostConfig.PortBindings ?? {}).toEqual({});
  });
});

describe('an engine behind a socket file whose network is another one', () => {
  let engine: PrivateEngine;
  let bed: DockerFixture;
  let forwarder: Forwarder;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    await engine.start();
    forwarder = new Forwarder(engine);
    bed = await DockerFixture.open(engine.docker, 'all', 'auto');
  }, 120_000);
  afterAll(async () => {
    forwarder?.close();
    await bed?.runtime.close();
    await engine?.close();
  });

  it('has agents that are reached by ports which it publishes on its loopback', async () => {
    const view = await bed.running({ command: server });
    const { host, port } = await bed.runtime.address(view, 8080);
    expect(host).toBe('127.0.0.1');
    await forwarder.open(port);
    expect(await asked(host, port)).toBe(404);
    await expect(bed.runtime.address(view, 9_090)).rejects.toThrow(RuntimeRefused);
  });

  /** Makes a container for its own address, as before a change of the engine. */
  const madeBefore = async (spec: ContainerSpec): Promise<string> => {
    const { instance, containerKey, docker } = bed;
    const settings = { helperImage: null, ociRuntime: null, egress: 'all', addresses: 'container' } as const;
    const earlier = new DockerRuntime({ instance, containerKey, docker, ...settings });
    const { handle } = await earlier.create(spec);
    await earlier.close();
    return handle;
  };

  it('gives an agent whose container was made for its own address another one when it starts again', async () => {
    const spec = bed.spec({ command: server });
    const made = await madeBefore(spec);
    await expect(bed.runtime.start(made, {})).rejects.toThrow(ContainerGone);
    const again = await bed.runtime.create(spec);
    await bed.runtime.start(again.handle, {});
    expect((await bed.runtime.address(again, 8080)).host).toBe('127.0.0.1');
  });

  it('adopts no container that was made for its own address', async () => {
    const spec = bed.spec({ command: server });
    const made = await madeBefore(spec);
    expect((await bed.runtime.create(spec)).handle).not.toBe(made);
  });
});
