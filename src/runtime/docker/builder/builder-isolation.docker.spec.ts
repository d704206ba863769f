import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';

import { BUILDER_IMAGE_MS } from '../../../../test/support/builder-image.ts';
import { BuilderFixture } from '../../../../test/support/builder-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import { networkName } from '../engine/names.ts';

/** Returns the line of a step that asks a server. */
const ask = (host: string, port: number): string => `printf 'GET / HTTP/1.0\\\\r\\\\n\\\\r\\\\n' | nc -w 5 ${host} ${port} 2>&1`;

describe('a step of a build', () => {
  let bed: BuilderFixture;
  beforeAll(async () => (bed = await BuilderFixture.open()), BUILDER_IMAGE_MS);
  afterAll(() => bed.close());

  /** Returns what the engine tells of the only builder. */
  const builder = async (at = 0) => bed.bed.docker.getContainer((await bed.builders())[at] ?? '').inspect();
  const addressOf = async (container: Awaited<ReturnType<typeof builder>>): Promise<string> =>
    container.NetworkSettings.Networks[networkName(bed.bed.instance, 'builds')]?.IPAddress ?? '';

  it('has no privileges outside of the user namespace of its account, and the limits of its builder', async () => {
    const log = await bed.lines([
      "RUN grep -E '^(CapEff|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status; cat /proc/self/uid_map; cat /proc/self/cgroup",
      'RUN cut -d" " -f2,3,4 /proc/mounts',
    ]);
    const { Id, HostConfig, Mounts } = await builder();
    expect(log).toEqual(expect.arrayContaining(['CapEff:\t00000000a80425fb', 'NoNewPrivs:\t1', 'Seccomp:\t2', 'Seccomp_filters:\t2']));
    const [, first, count] = /^\s*0\s+(\d+)\s+(\d+)$/.exec(log.find((line) => /^\s*0\s+\d+\s+\d+$/.test(line)) ?? '') ?? [];
    expect(Number(first)).toBeGreaterThanOrEqual(1_879_048_192);
    expect(count).toBe('65536');
    // The processes of a step are in the group of their builder, where the engine holds these limits.
    expect(log.some((line) => line.includes('pids') && line.includes(Id))).toBe(true);
    expect(HostConfig).toMatchObject({ PidsLimit: 512, Memory: 4 * 1024 ** 3, ReadonlyRootfs: true, CapDrop: ['ALL'] });
    expect(HostConfig.NetworkMode).toBe(networkName(bed.bed.instance, 'builds'));
    expect(Mounts.map(({ Type, Destination }) => [Type, Destination])).toEqual([['volume', '/var/lib/buildkit']]);
    const mounts = log.filter((line) => /^\/(proc|sys)\S* \S+ (ro|rw)/.test(line));
    expect(mounts).toEqual(expect.arrayContaining([expect.stringMatching(/^\/proc\/sys proc ro/)]));
  }, 120_000);

  it.each([
    ['open a packet socket, and so speak for its neighbours', 'arping -c 1 -w 1 -I eth0 192.0.2.1'],
    ['send packets of its own making', 'traceroute -I -m 1 -w 1 192.0.2.1'],
    ['mount', 'mkdir /m && mount -t tmpfs none /m'],
    ['make namespaces', 'unshare -n true'],
    ['make devices', 'mknod /device b 8 0'],
    ['change settings of the host', 'echo x > /proc/sys/kernel/core_pattern'],
    ['give its network another address', 'ip addr add 192.0.2.7/24 dev eth0'],
  ])('can’t %s', async (_, command) => {
    const log = await bed.lines([`RUN ${command} 2>&1 && echo done; true`]);
    expect(log.join('\n')).toMatch(/not permitted|denied|Read-only/i);
    expect(log).not.toContain('done');
  });

  it('has a network that no agent is on, and reaches neither an agent nor the build of another account', async () => {
    const { image } = bed.bed;
    const serve = ['/bin/busybox', 'httpd', '-f', '-p', '8000', '-h', '/www'];
    const agent = await bed.bed.running({ image, command: serve });
    const { host } = await bed.bed.runtime.address(agent, 8000);
    const serving = new AbortController();
    const log: string[] = [];
    const other = bed.lines([`RUN httpd -p 8000 -h /www; ${ask('127.0.0.1', 8000)}; echo serving; sleep 300`], {
      accountId: 'two',
      signal: serving.signal,
      log,
    });
    other.catch(() => undefined);
    try {
      await until('the other build serves', () => (log.includes('serving') ? true : undefined));
      expect(log.join('\n')).toContain('404');
      const containers = await Promise.all((await bed.builders()).map((id) => bed.bed.docker.getContainer(id).inspect()));
      const neighbour = containers.find(({ Config }) => Config.Labels['mooring.builder'] === 'two');
      const address = neighbour === undefined ? '' : await addressOf(neighbour);
      expect(address).toMatch(/^\d+\./);
      const heard = (await bed.lines([host, address].map((where) => `RUN ${ask(where, 8000)}; true`))).join('\n');
      expect(heard).not.toContain('404');
      expect(heard.match(/^nc: .*/gm) ?? heard).toHaveLength(2);
    } finally {
      serving.abort(new Error('over'));
      await other.catch(() => undefined);
      await bed.bed.runtime.remove(agent.handle);
    }
  }, 180_000);
});

describe('a build', () => {
  let bed: BuilderFixture;
  let server: Server;
  let asked = 0;
  let place: [host: string, port: number];
  beforeAll(async () => {
    bed = await BuilderFixture.open();
    await bed.lines(['RUN true']);
    const network = await bed.bed.docker.getNetwork(networkName(bed.bed.instance, 'builds')).inspect();
    server = createServer((socket) => {
      asked += 1;
      socket.on('error', () => undefined).end('HTTP/1.0 200 OK\r\n\r\nfetched\n');
    });
    server.listen(0, '0.0.0.0');
    await once(server, 'listening');
    // The engine's own address on a network is the first of its range.
    place = [network.IPAM?.Config?.[0]?.Subnet?.replace(/\d+\/\d+$/, '1') ?? '', (server.address() as AddressInfo).port];
  }, BUILDER_IMAGE_MS);
  afterAll(async () => {
    server.close();
    await bed.close();
  });

  it.each([
    ['an address', () => `ADD http://${place.join(':')}/file /file`],
    ['a repository', () => `ADD git://${place.join(':')}/repository.git /repository`],
    ['an image of a registry', () => `COPY --from=${place.join(':')}/image:1 / /`],
    ['an image of a registry, for a mount', () => `RUN --mount=from=${place.join(':')}/image:1,target=/m true`],
    ['an image of the engine that was not given to it', () => `COPY --from=mooring-helper:latest / /`],
  ])('fetches nothing itself, not even %s, which is refused before any connection', async (_, line) => {
    asked = 0;
    await expect(bed.lines([line()])).rejects.toThrow(/is neither a file of the repository nor an image that its Dockerfile names plainly/);
    expect(asked).toBe(0);
  });

  it('reads its Dockerfile with BuildKit’s own reader, whatever the file names', async () => {
    asked = 0;
    const Dockerfile = `# syntax=${place.join(':')}/frontend:1\nFROM ${bed.bed.image}\nRUN echo read\n`;
    const log: string[] = [];
    await bed.build({ files: { Dockerfile }, bases: [bed.bed.image], log });
    expect(log).toContain('read');
    expect(asked).toBe(0);
  });

  it.each([
    ['RUN --security=insecure true', /rights on the host|security\.insecure/],
    ['RUN --network=host true', /rights on the host|network\.host/],
    ['RUN --network=none true', /sets the network of a step/],
    ['RUN --mount=type=ssh,required=true true', /ssh/i],
  ])('gets no privilege by %s', async (line, reason) => {
    await expect(bed.lines([line])).rejects.toThrow(reason);
  });

  it('can fetch from the listener in a step, where the egress rules allow it', async () => {
    expect(await bed.lines([`RUN ${ask(...place)}`])).toContain('fetched');
  });
});
