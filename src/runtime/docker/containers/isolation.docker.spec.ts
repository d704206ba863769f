import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import Dockerode from 'dockerode';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import { firstLines } from '../../../../test/contracts/runtime.fixture.contract.ts';
import type { ContainerSpec, ContainerView } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { DockerRuntime } from '../docker-runtime.ts';

const user = '10001:10001';

describe.each([
  ['an agent’s container', {}],
  ['a container that may make user namespaces', { userNamespaces: true }],
])('%s', (_, kind) => {
  const running = (other: Partial<ContainerSpec> = {}): Promise<ContainerView> => bed.running({ ...kind, ...other });
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  it('has no more rights than an image’s start script needs as root, and none as another user', async () => {
    const status = 'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/1/status /proc/self/status';
    const root = await bed.output(await running(), status);
    // The bits are CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID and NET_BIND_SERVICE, for the agent and for commands beside it.
    expect(root.match(/CapEff:\t00000000000004eb/g)).toHaveLength(2);
    expect(root.match(/CapBnd:\t00000000000004eb/g)).toHaveLength(2);
    expect(root.match(/NoNewPrivs:\t1/g)).toHaveLength(2);
    expect(root.match(/Seccomp:\t2/g)).toHaveLength(2);
    const other = await bed.output(await running({ user }), status);
    expect(other.match(/CapEff:\t0000000000000000/g)).toHaveLength(2);
  });

  it('sees nothing of the host but its volume, and publishes nothing', async () => {
    const view = await running();
    const { HostConfig, Mounts, NetworkSettings } = await bed.docker.getContainer(view.handle).inspect();
    expect(Mounts.map(({ Type, Destination, RW }) => `${Type} ${Destination} ${RW}`).toSorted()).toEqual([
      'volume /.mooring false',
      'volume /data true',
    ]);
    expect(HostConfig).toMatchObject({ Privileged: false, PidMode: '', UTSMode: '', IpcMode: 'private', Binds: null, Devices: null });
    expect(Object.values(NetworkSettings.Ports ?? {}).flat()).toEqual([]);
    expect((await bed.run(view, 'echo x > /.mooring/busybox')).exitCode).not.toBe(0);
  });

  it('has one network, on which it has no address but its own', async () => {
    const view = await running();
    const { NetworkSettings } = await bed.docker.getContainer(view.handle).inspect();
    expect(Object.keys(NetworkSettings.Networks)).toHaveLength(1);
    const addresses = await bed.output(view, "ip -o addr | awk '{ print $2, $4 }'");
    const [network] = Object.values(NetworkSettings.Networks);
    expect(
      addresses
        .trim()
        .split('\n')
        .map((line) => line.split(' ')[0]),
    ).toEqual(['lo', 'eth0']);
    expect(addresses).toContain(`eth0 ${network?.IPAddress}/`);
  });

  it('is refused more processes than its limit', async () => {
    const view = await running({ pids: 16 });
    const limit = 'cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null';
    expect((await bed.run(view, limit)).stdout.toString()).toBe('16\n');
    const { stderr } = await bed.run(view, 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 20 & done');
    expect(stderr.toString()).toContain("can't fork");
    // The refused processes are gone with the command, so the next one runs.
    expect(await bed.output(view, 'echo well')).toBe('well\n');
  });

  it('has no more files open in a process than its limit, so that one takes few of the machine’s terminals', async () => {
    const view = await running({ openFiles: 512 });
    expect(await bed.output(view, 'ulimit -Sn; ulimit -Hn')).toBe('512\n512\n');
  });

  it('is killed at its memory limit, and that is known', async () => {
    const ended = async () => {
      const view = await running({ memoryBytes: 16 * 1024 * 1024, command: ['/bin/busybox', 'tail', '/dev/zero'] });
      return until('the container has ended', async () => {
        const now = await bed.state(view);
        return now?.state === 'exited' ? now : undefined;
      });
    };
    // On a busy machine the engine itself misses the kernel's word for about one such container in forty, and knows the exit code alone.
    let isKnown = false;
    for (let n = 0; n < 5 && !isKnown; n += 1) {
      const { exitCode, oomKilled } = await ended();
      expect(exitCode).toBe(137);
      isKnown = oomKilled;
    }
    expect(isKnown).toBe(true);
  });

  it('has its older output removed if it prints too much, and its log says where lines may be missing', async () => {
    const script = `echo first; until [ -e /go ]; do sleep 0.1; done; yes ${'y'.repeat(999)} | head -n 45000; echo last`;
    const view = await running({ command: ['/bin/busybox', 'sh', '-c', script] });
    const [first] = await firstLines(bed.runtime, view.handle, null, 1);
    await bed.run(view, 'touch /go');
    await until('the container has ended', async () => ((await bed.state(view))?.state === 'exited' ? true : undefined));
    const [told, next] = await firstLines(bed.runtime, view.handle, first?.cursor ?? null, 2);
    expect([first?.text, told?.text, next?.text]).toEqual([
      'first',
      expect.stringContaining('Lines of output may be missing here'),
      'y'.repeat(999),
    ]);
    expect(await bed.runtime.lastLines(view.handle, 2)).toEqual(['y'.repeat(999), 'last']);
  });

  it('can’t reach another agent, which the control plane can reach', async () => {
    const server = await running({ command: ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'] });
    const { host, port } = await bed.runtime.address(server, 8080);
    await until('the server answers', () =>
      fetch(`http://${host}:${port}/none`).then(
        ({ status }) => status,
        () => undefined,
      ),
    );
    const neighbour = await running();
    const ask = (address: string) => `echo 'GET /none HTTP/1.0\r\n\r\n' | /bin/busybox nc -w 2 ${address} ${port}`;
    expect(await bed.run(neighbour, ask(host))).toMatchObject({ exitCode: 1, stdout: Buffer.alloc(0) });
    expect(await bed.output(server, ask('127.0.0.1'))).toContain('404');
  });

  it('writes to its volume as any user, and nowhere else where its root is read-only', async () => {
    const view = await running({ user, readOnlyRoot: true, tmpfs: [{ path: '/scratch' }] });
    expect(await bed.output(view, 'echo kept > /data/a && echo kept > /scratch/b && cat /data/a /scratch/b && id -u')).toBe(
      'kept\nkept\n10001\n',
    );
    expect(await bed.output(view, 'echo x > /tmp/c')).toContain('Read-only file system');
    await bed.runtime.stop(view.handle, 1);
    await bed.runtime.start(view.handle, {});
    expect(await bed.output(view, 'ls /scratch && echo again > /scratch/b && cat /scratch/b')).toBe('again\n');
    await bed.runtime.remove(view.handle);
    const next = await running({ agentId: view.agentId, generation: 2, user: 'agent' });
    expect(await bed.output(next, 'cat /data/a && echo more >> /data/a && id -un')).toBe('kept\nagent\n');
    const { containers } = await bed.runtime.inspect(view.agentId);
    expect(containers.map(({ generation }) => generation)).toEqual([2]);
  });

  it('loses what a command left running, even what left its process group', async () => {
    const view = await running();
    const line = 'sleep 61 & setsid sleep 62 & (setsid sleep 63 &); sleep 64';
    expect(await bed.run(view, line, 500)).toMatchObject({ exitCode: 124, timedOut: true });
    expect((await bed.run(view, 'setsid sleep 65 & echo done')).stdout.toString()).toBe('done\n');
    expect(await bed.output(view, 'ps | grep -E "sleep 6[1-5]" | grep -v grep')).toBe('');
  });

  it('runs commands of an image without a single program, from a user who may write nothing', async () => {
    const view = await running({ user: '12345', readOnlyRoot: true });
    const ran = await bed.runtime.exec(view.handle, {
      argv: ['wc', '-c'],
      stdin: Buffer.from('12345'),
      timeoutMs: 10_000,
      outputLimitBytes: 100,
    });
    expect(ran).toMatchObject({ exitCode: 0, stdout: Buffer.from('5\n') });
  });
});

describe('an agent’s container', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  it('is refused, and nothing is left, where its OCI runtime is not known', async () => {
    const spec = bed.spec();
    await expect(bed.another('no-such-runtime').create(spec)).rejects.toThrow(RuntimeRefused);
    expect((await bed.runtime.inspect(spec.agentId)).containers).toEqual([]);
  });

  it('is reached by a port of the loopback address where the engine is reached over the network', async () => {
    const path = await (bed.docker.modem as unknown as { getSocketPath(): Promise<string> }).getSocketPath();
    const sockets: Socket[] = [];
    const away = createServer({ allowHalfOpen: true }, (client) => {
      const engine = connect({ path, allowHalfOpen: true });
      sockets.push(client, engine);
      for (const [from, to] of [
        [client, engine],
        [engine, client],
      ] as const)
        from.on('error', () => to.destroy()).pipe(to);
    }).listen(0, '127.0.0.1');
    await once(away, 'listening');
    const docker = new Dockerode({ host: '127.0.0.1', port: (away.address() as AddressInfo).port });
    const said: string[] = [];
    const logger = { log: () => undefined, warn: (fields: object, message: string) => said.push(`${message} ${JSON.stringify(fields)}`) };
    const runtime = new DockerRuntime({
      instance: bed.instance,
      containerKey: bed.containerKey,
      docker,
      helperImage: bed.image,
      ociRuntime: null,
      egress: 'internet',
      logger,
    });
    try {
      const view = await runtime.create(bed.spec({ command: ['/bin/busybox', 'httpd', '-f', '-p', '8080', '-h', '/www'] }));
      await runtime.start(view.handle, {});
      const { host, port } = await runtime.address(view, 8080);
      expect(host).toBe('127.0.0.1');
      const status = await until('the server answers', () =>
        fetch(`http://${host}:${port}/none`).then(
          (answer) => answer.status,
          () => undefined,
        ),
      );
      expect(status).toBe(404);
      await expect(runtime.address(view, 9_090)).rejects.toThrow(RuntimeRefused);
      const ran = await runtime.exec(view.handle, { argv: ['cat'], stdin: Buffer.from('in'), timeoutMs: 10_000, outputLimitBytes: 10 });
      expect(ran).toMatchObject({ exitCode: 0, stdout: Buffer.from('in') });
      await runtime.remove(view.handle);
      // The egress rules are loaded there, too.
      expect(await runtime.egress()).toMatchObject({ lack: null, linkLack: null });
      // The log tells of limits of this machine's kernel that are too low, as `/ready` does.
      const { warnings } = await runtime.engineStatus();
      const limits = warnings.filter((warning) => warning.includes(': raise them') || warning.includes(': lower it'));
      const ofLimits = limits.length === 0 ? [] : [expect.stringMatching(/^LIMITS OF THE KERNEL/)];
      expect(said.filter((line) => !line.includes('KNOWN FAULTS'))).toEqual(ofLimits);
    } finally {
      await runtime.close();
      for (const socket of sockets) socket.destroy();
      away.close();
    }
  });

  it('runs no command where it was made without the supervisor, and says so', async () => {
    const container = await bed.docker.createContainer({
      Image: bed.image,
      Labels: { 'mooring.instance': bed.instance },
      HostConfig: { NetworkMode: 'none' },
    });
    await container.start();
    await expect(bed.runtime.exec(container.id, { argv: ['id'], timeoutMs: 1_000, outputLimitBytes: 1 })).rejects.toThrow(
      /has no supervisor/,
    );
    await container.remove({ force: true });
  });
});
