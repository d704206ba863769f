import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { closeAll } from '../../../../test/support/close-all.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { FakeNetwork, places, webPort } from '../../../../test/support/fake-network.ts';
import { PrivateEngine } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import { openRange, type OpenRange } from '../../../kernel/network/open-ranges.ts';
import type { ContainerView } from '../../container.ts';
import type { EgressMode } from '../../../kernel/config/config.ts';
import { DockerRuntime } from '../docker-runtime.ts';

const dns = ['--dns', places.nameserver];
const server = { command: ['/bin/busybox', 'httpd', '-f', '-p', String(webPort), '-h', '/www'] };
const refused = expect.stringContaining('Connection refused');
/** In a closed network newer engines give no route to any other. */
const unreached = expect.stringMatching(/Connection refused|Network is unreachable/);
const notFound = expect.stringContaining('No route to host');

// A machine under load takes seconds for each container and each run of nft.
jest.setTimeout(120_000);

const ways = [
  ['its own address', 'container'],
  ['a published port', 'published'],
] as const;

describe.each(ways)('what an agent may reach that is reached by %s', (_way, addresses) => {
  let engine: PrivateEngine;
  let around: FakeNetwork;
  let bed: DockerFixture;
  let neighbour: ContainerView;
  let agent: ContainerView;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    around = await FakeNetwork.open(engine);
    await engine.start(dns);
    bed = await DockerFixture.open(engine.docker, 'internet', addresses);
    neighbour = await bed.running(server);
    agent = await bed.running();
  });
  afterAll(() => closeAll(bed?.runtime, around, engine));

  /** Returns the place of an agent on its network. */
  async function placeOf(view: ContainerView) {
    const [network] = Object.values((await engine.docker.getContainer(view.handle).inspect()).NetworkSettings.Networks);
    return { address: network?.IPAddress ?? '', network: network?.NetworkID ?? '' };
  }
  /** Returns what the agent gets from an address, be it a response or an error. */
  const hears = (host: string, from = agent, port: number = webPort) =>
    bed.output(from, `echo 'GET / HTTP/1.0\r\n\r\n' | nc -w 20 ${host} ${port}`);
  const isRestricted = () => around.nft('list', 'chain', 'inet', `mooring_${bed.instance}`, 'forward').includes('jump open_forward');

  /** Returns the status with which the agent answers the engine's machine, where the service, or a forwarded port, would be. */
  async function asks(view: ContainerView, runtime = bed.runtime): Promise<string> {
    const { host, port } = await runtime.address(view, webPort);
    return around.ask(host, port);
  }

  /** Calls the agent as a service does that looks whether it is ready. */
  async function call(view: ContainerView): Promise<void> {
    try {
      await asks(view);
    } catch {
      // One that does not listen refuses the connection, and was reached.
    }
  }

  async function expectRules(): Promise<void> {
    for (const view of [neighbour, agent]) await call(view);
    const { port } = await bed.runtime.address(neighbour, webPort);
    expect({
      gateway: await hears(await around.gatewayOf(agent.handle)),
      publishedPort: await hears(await around.gatewayOf(agent.handle), agent, port),
      publishedPortOfMachine: await hears(places.machine, agent, port),
      machine: await hears(places.machine),
      loopback: await hears('127.0.0.1'),
      neighbour: await hears(places.neighbour),
      metadata: await hears(places.metadata),
      agent: await hears((await placeOf(neighbour)).address),
      internet: await hears(places.internet),
    }).toEqual({
      gateway: refused,
      publishedPort: refused,
      publishedPortOfMachine: refused,
      machine: refused,
      loopback: refused,
      neighbour: refused,
      metadata: refused,
      agent: notFound,
      internet: expect.stringContaining(`reached ${places.internet}`),
    });
  }

  async function withRuntime(egress: EgressMode, work: (runtime: DockerRuntime) => Promise<void>, open: OpenRange[] = []): Promise<void> {
    const runtime = bed.another(null, egress, open);
    try {
      await work(runtime);
    } finally {
      await runtime.close();
    }
  }

  it('is the internet and nothing private; what is refused is refused at once, and counted', async () => {
    await expectRules();
    await withRuntime('internet', async (restarted) => {
      const { lack, refused: counted } = await restarted.egress();
      expect(lack).toBeNull();
      expect(['private', 'host', 'agents'].filter((to) => (counted.get(to) ?? 0) === 0)).toEqual([]);
    });
  });

  it('is no more for one that may make user namespaces, and nothing in a network that it makes there', async () => {
    const maker = await bed.running({ user: '10001:10001', userNamespaces: true });
    await call(neighbour);
    const gateway = await around.gatewayOf(maker.handle);
    for (const place of [gateway, places.machine, places.neighbour, places.metadata, '127.0.0.1']) {
      expect(await hears(place, maker)).toEqual(refused);
      const inside = `unshare -U -r -n sh -c "ip link set lo up; echo x | nc -w 20 ${place} ${webPort}"`;
      expect(await bed.output(maker, inside)).toMatch(/unreachable|refused/);
    }
    await bed.runtime.remove(maker.handle);
  });

  it('is reached by names, though the engine asks a private server for them', async () => {
    expect(await bed.output(agent, 'nslookup somewhere.example 127.0.0.11')).toContain(places.internet);
  });

  it('is less than what may reach the agent: the service does', async () => {
    expect(await asks(neighbour)).toBe('404');
  });

  it('is set right by a service that starts, after somebody took the rules away', async () => {
    around.nft('delete', 'table', 'inet', `mooring_${bed.instance}`);
    expect(await hears(places.neighbour)).toContain(`reached ${places.neighbour}`);
    expect(await hears(await around.gatewayOf(agent.handle))).toContain('reached the host');
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectRules();
  });

  it('is set right where somebody changed the rules, or put a table of another kind in their place', async () => {
    around.nft('flush', 'chain', 'inet', `mooring_${bed.instance}`, 'open_forward');
    expect(await hears(places.neighbour)).toContain('reached');
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectRules();
    around.nft('delete', 'table', 'inet', `mooring_${bed.instance}`);
    around.nft('add', 'table', 'inet', `mooring_${bed.instance}`);
    around.nft('add', 'set', 'inet', `mooring_${bed.instance}`, 'private4', '{ type inet_service; }');
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectRules();
  });

  it('is the same on a network that was removed and made again', async () => {
    for (const { handle } of (await bed.runtime.list()).containers) await bed.runtime.remove(handle);
    await engine.docker.getNetwork(`mooring-${bed.instance}`).remove();
    neighbour = await bed.running(server);
    agent = await bed.running();
    await expectRules();
  });

  it('is the same after the engine and its machine’s rules started anew', async () => {
    const stop = new AbortController();
    let connections = 0;
    const listening = (async () => {
      for await (const { kind } of bed.runtime.events(stop.signal)) connections += kind === 'lost' ? 1 : 0;
    })();
    await until('the event stream stands', () => (connections === 1 ? true : undefined));
    await engine.stop();
    around.nft('flush', 'ruleset');
    await engine.start(dns);
    await until('the service has found the engine again', () => (connections === 2 ? true : undefined));
    for (const { handle } of [neighbour, agent]) await bed.runtime.start(handle, {});
    await expectRules();
    stop.abort();
    await listening;
  });

  it('ends with the last free port of its bridge, and the agent that has none is told so', async () => {
    const made = await bed.runtime.create(bed.spec());
    const bridge = `br-${(await placeOf(agent)).network.slice(0, 12)}`;
    const free = 1_023 - (JSON.parse(around.ip('-json', 'link', 'show', 'master', bridge)) as unknown[]).length;
    const ports = Array.from(
      { length: free },
      (_, at) => `link add port${at} group 77 master ${bridge} type veth peer name peer${at} group 77\n`,
    );
    around.ip('-batch', '-', ports.join(''));
    await expect(bed.runtime.start(made.handle, {})).rejects.toThrow(/no room for one more running agent.*1,020/);
    around.ip('link', 'delete', 'port0');
    await bed.runtime.start(made.handle, {});
    await bed.runtime.remove(made.handle);
    around.ip('link', 'delete', 'group', '77');
  });

  it('does not depend on another installation on the engine', async () => {
    const other = await DockerFixture.open(engine.docker, 'internet', addresses);
    const theirs = await other.running();
    const ask = `echo 'GET / HTTP/1.0\r\n\r\n' | nc -w 20 ${places.neighbour} ${webPort}`;
    expect(await other.output(theirs, ask)).toEqual(refused);
    await other.close();
    expect(around.nft('list', 'tables')).not.toContain(other.instance);
    await expectRules();
  });

  it('is nothing at all where the operator says so, and the service still reaches the agent', async () => {
    await withRuntime('none', async (closed) => {
      const made = await closed.create(bed.spec(server));
      await closed.start(made.handle, {});
      expect(await hears(places.internet, made)).toEqual(unreached);
      const place = await placeOf(made);
      expect((await engine.docker.getNetwork(place.network).inspect()).Internal).toBe(addresses === 'container');
      expect(await hears(await around.gatewayOf(made.handle), made)).toEqual(refused);
      expect(await asks(made, closed)).toBe('404');
      // The bed's own runtime, which allows more, loads its rules every minute, perhaps in the middle of this.
      await until('an agent that was created when more was allowed has lost it', async () => {
        const heard = [await hears(places.internet), await bed.output(agent, 'nslookup somewhere.example 127.0.0.11')];
        if (heard[0]?.includes('Connection refused') && !heard[1]?.includes(places.internet)) return true;
        await withRuntime('none', async (again) => void (await again.egress()));
        return undefined;
      });
      expect(await asks(neighbour, closed)).toBe('404');
      await closed.remove(made.handle);
    });
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectRules();
  });

  it('is nothing for an agent whose owner says so, while others reach the internet', async () => {
    const [made, other] = [await bed.running({ ...server, egress: 'none' }), await bed.running({ ...server, egress: 'none' })];
    const expectNothing = async () =>
      expect({
        internet: await hears(places.internet, made),
        neighbour: await hears(places.neighbour, made),
        machine: await hears(places.machine, made),
        gateway: await hears(await around.gatewayOf(made.handle), made),
        agent: await hears((await placeOf(neighbour)).address, made),
        other: await hears((await placeOf(other)).address, made),
        name: await bed.output(made, 'nslookup somewhere.example 127.0.0.11'),
        service: await asks(made),
      }).toEqual({
        internet: unreached,
        neighbour: unreached,
        machine: unreached,
        gateway: refused,
        // Engines from 28 on drop what comes to a container over another bridge, before the rules could refuse it.
        agent: expect.not.stringContaining('404'),
        other: notFound,
        name: expect.not.stringContaining(places.internet),
        service: '404',
      });
    await asks(other);
    await expectNothing();
    await withRuntime('all', async (open) => {
      expect((await open.egress()).lack).toBeNull();
      expect(await hears(places.internet, made)).not.toContain('reached');
      expect(await hears(await around.gatewayOf(made.handle), made)).toEqual(refused);
    });
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectNothing();
    await expectRules();
    for (const { handle } of [made, other]) await bed.runtime.remove(handle);
  });

  it('is what the operator opens of private addresses, too: by address and port, and of the host', async () => {
    const open = [`${places.neighbour}:${webPort}`, `${places.machine}:${webPort}`, `${places.metadata}:80`].map(openRange);
    // The bed's own runtime, which opens nothing, loads its rules every minute, perhaps in the middle of this.
    await until('what is open is reached', async () => {
      await withRuntime(
        'internet',
        async (runtime) => void (await runtime.egress()),
        open.filter((range) => range !== null),
      );
      const heard = [await hears(places.neighbour), await hears(places.machine)];
      return heard[0]?.includes(`reached ${places.neighbour}`) && heard[1]?.includes('reached the host') ? true : undefined;
    });
    expect([await hears(places.metadata), await hears(await around.gatewayOf(agent.handle))]).toEqual([refused, refused]);
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    await expectRules();
  });

  it('includes the operator’s mirrors for builds, and no other private address', async () => {
    const { instance, containerKey, docker } = bed;
    const mirrors = [{ host: places.neighbour, port: webPort }];
    const runtime = new DockerRuntime({ instance, containerKey, docker, helperImage: null, ociRuntime: null, egress: 'none', mirrors });
    const directory = await mkdtemp(join(tmpdir(), 'mooring-mirror-'));
    const asked = [places.neighbour, places.machine, places.internet];
    const ask = (host: string) => `RUN printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 20 ${host} ${webPort} 2>&1 | sed 's/^/${host}: /'; true`;
    let tries = 0;
    // The bed's own runtime, which opens other addresses, loads its rules every minute, perhaps in the middle of a build.
    await until('a build reaches the mirror alone', async () => {
      tries += 1;
      await writeFile(join(directory, 'Dockerfile'), [`FROM ${bed.image}`, `ENV TRY=${tries}`, ...asked.map(ask), ''].join('\n'));
      const lines: string[] = [];
      await runtime.ensureImage(
        { kind: 'dockerfile', directory, dockerfile: 'Dockerfile', start: null, accountId: 'one' },
        (line) => lines.push(line),
        timeoutSignal(100_000),
      );
      const log = lines.join('\n');
      const others = ['reached the host', `reached ${places.internet}`];
      return log.includes(`reached ${places.neighbour}`) && !others.some((other) => log.includes(other)) ? true : undefined;
    });
    await rm(directory, { recursive: true });
    await runtime.close();
    await withRuntime('internet', async (restarted) => void (await restarted.egress()));
    expect(await hears(places.neighbour)).toEqual(refused);
  });

  it('is everything but other agents where the operator says so', async () => {
    await withRuntime('all', async (open) => {
      const stop = new AbortController();
      const listening = (async () => {
        for await (const event of open.events(stop.signal)) void event;
      })();
      await until('no rule of open networks is left', () => (isRestricted() ? undefined : true));
      stop.abort();
      await listening;
    });
    // The bed's own runtime loads its rules every minute, perhaps in the middle of this.
    await until('everything is reached', async () => {
      const heard = [await hears(places.neighbour), await hears(await around.gatewayOf(agent.handle))];
      if (heard[0]?.includes(`reached ${places.neighbour}`) && heard[1]?.includes('reached the host')) return true;
      await withRuntime('all', async (again) => void (await again.egress()));
      return undefined;
    });
    for (const view of [neighbour, agent]) await call(view);
    expect(await hears((await placeOf(neighbour)).address)).toEqual(notFound);
  });
});
