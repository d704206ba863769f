import { closeAll } from '../../../../test/support/close-all.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { FakeNetwork, places, webPort } from '../../../../test/support/fake-network.ts';
import { PrivateEngine } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import type { EgressMode } from '../../../kernel/config/config.ts';
import type { ContainerView } from '../../container.ts';
import type { DockerRuntime } from '../docker-runtime.ts';
import { outdatedName } from '../engine/container-identities.ts';
import { labels } from '../engine/names.ts';

const dns = ['--dns', places.nameserver];
const server = { command: ['/bin/busybox', 'httpd', '-f', '-p', String(webPort), '-h', '/www'] };
const listed = { ...server, egress: { allow: [`somewhere.example:${webPort}`, `*.Example.org:${webPort}`, `inner.example:${webPort}`] } };
const refused = expect.stringContaining('Connection refused');
/** In a closed network newer engines give no route to any other. */
const unreached = expect.stringMatching(/Connection refused|Network is unreachable/);
const notFound = expect.stringContaining('No route to host');
const reached = expect.stringContaining(`reached ${places.internet}`);
const forbidden = expect.stringContaining('403');

// A machine under load takes seconds for each container and each run of nft.
jest.setTimeout(120_000);

const ways = [
  ['its own address', 'container'],
  ['a published port', 'published'],
] as const;

describe.each(ways)('an agent with a list of names that is reached by %s', (_way, addresses) => {
  let engine: PrivateEngine;
  let around: FakeNetwork;
  let bed: DockerFixture;
  let agent: ContainerView;
  let neighbour: ContainerView;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    around = await FakeNetwork.open(engine);
    await engine.start(dns);
    bed = await DockerFixture.open(engine.docker, 'internet', addresses);
    agent = await bed.running(listed);
    neighbour = await bed.running({ ...server, egress: { allow: [`only.example:${webPort}`] } });
    await proxyListens();
  });
  afterAll(() => closeAll(bed?.runtime, around, engine));

  /** Returns what the agent gets from a name by its proxy, be it a response or an error. */
  const gets = (name: string, from = agent) => bed.output(from, `wget -q -O - http://${name}:${webPort}/ 2>&1`);
  /** Returns what the agent gets from an address without its proxy. */
  const hears = (host: string, port: number = webPort, from = agent) =>
    bed.output(from, `echo 'GET / HTTP/1.0\r\n\r\n' | nc -w 20 ${host} ${port} 2>&1`);
  const proxy = () => engine.docker.getContainer(`mooring-${bed.instance}-egress-proxy`);
  const placeOf = async (view: ContainerView) => {
    const [network] = Object.values((await engine.docker.getContainer(view.handle).inspect()).NetworkSettings.Networks);
    return { address: network?.IPAddress ?? '', network: network?.NetworkID ?? '' };
  };
  const proxyAddress = async () => {
    const { network } = await placeOf(agent);
    const { Networks } = (await proxy().inspect()).NetworkSettings;
    return Object.values(Networks).find(({ NetworkID }) => NetworkID === network)?.IPAddress ?? '';
  };
  /** A program that was just started takes a moment to listen. */
  const proxyListens = () =>
    until('the proxy listens', async () => ((await hears(await proxyAddress(), 3128)).includes('400') ? true : undefined));
  const settled = async (runtime: DockerRuntime) => void (await runtime.egress());

  async function withRuntime(egress: EgressMode, work: (runtime: DockerRuntime) => Promise<void>): Promise<void> {
    const runtime = bed.another(null, egress);
    try {
      await work(runtime);
    } finally {
      await runtime.close();
    }
  }

  /** Calls the agents from the engine's machine, as their service does when they have started. */
  async function call(runtime: DockerRuntime, ...views: ContainerView[]): Promise<void> {
    for (const view of views) {
      const { host, port } = await runtime.address(view, webPort);
      await until('the agent answers', () => {
        try {
          return around.ask(host, port);
        } catch {
          return undefined;
        }
      });
    }
  }

  async function expectList(): Promise<void> {
    await call(bed.runtime, agent, neighbour);
    expect({
      listed: await gets('somewhere.example'),
      wildcard: await gets('a.b.example.org'),
      other: await gets('other.example'),
      neighboursName: await gets('only.example'),
      privateName: await gets('inner.example'),
      directly: await hears(places.internet),
      gateway: await hears(await around.gatewayOf(agent.handle)),
      neighbour: await hears((await placeOf(neighbour)).address),
      itsName: await gets('only.example', neighbour),
      notItsName: await gets('somewhere.example', neighbour),
    }).toEqual({
      listed: reached,
      wildcard: reached,
      other: forbidden,
      neighboursName: forbidden,
      privateName: forbidden,
      directly: unreached,
      gateway: refused,
      neighbour: notFound,
      itsName: reached,
      notItsName: forbidden,
    });
  }

  it('reaches those by its proxy and nothing else, and the service reaches it', async () => {
    await expectList();
    const { host, port } = await bed.runtime.address(agent, webPort);
    expect(around.ask(host, port)).toBe('404');
    const answer = await hears(await proxyAddress(), 3128);
    expect(answer).toContain('400 Bad Request');
    expect(await hears(await proxyAddress(), 22)).toEqual(refused);
  });

  it('is refused private addresses by the rules as well, whatever its proxy does', async () => {
    const source = `require('node:net').connect(${webPort}, '${places.neighbour}').on('error', ({ code }) => console.log(code)).on('connect', () => console.log('open'))`;
    const run = await proxy().exec({ Cmd: ['/usr/local/bin/node', '-e', source], AttachStdout: true });
    let printed = '';
    for await (const chunk of await run.start({})) printed += String(chunk);
    expect(printed).toContain('ECONNREFUSED');
  });

  it('finds the proxy in its variables, unless its user named one', async () => {
    const own = await bed.running({ ...listed, environment: { https_proxy: 'http://own.example:1' } });
    const names = (text: string) =>
      text
        .split('\n')
        .filter((line) => /_proxy=/i.test(line))
        .toSorted();
    const address = `http://${await proxyAddress()}:3128`;
    const local = 'localhost,127.0.0.1,::1';
    expect(names(await bed.output(own, 'env'))).toEqual([
      `HTTP_PROXY=${address}`,
      `NO_PROXY=${local}`,
      `http_proxy=${address}`,
      'https_proxy=http://own.example:1',
      `no_proxy=${local}`,
    ]);
    await bed.runtime.remove(own.handle);
  });

  it('is counted when its proxy refuses it', async () => {
    await gets('other.example');
    await until('the refusals are counted', async () => {
      let counted = false;
      await withRuntime('internet', async (runtime) => {
        const { refusedRequests, lack, proxyLack } = await runtime.egress();
        expect([lack, proxyLack]).toEqual([null, null]);
        counted = ['name', 'address'].every((why) => (refusedRequests.get(why) ?? 0) > 0);
      });
      return counted ? true : undefined;
    });
  });

  it('is not changed by a container with its labels, or with a list that can’t be read', async () => {
    const { Config } = await engine.docker.getContainer(agent.handle).inspect();
    const { [labels.code]: _, ...older } = Config.Labels;
    const forgeries = [
      { Labels: Config.Labels },
      { Labels: Config.Labels, name: outdatedName(agent) },
      { Labels: { ...Config.Labels, [labels.allow]: '["other.example"]' } },
      { Labels: { ...older, [labels.allow]: 'not json' } },
    ];
    const forged = await Promise.all(forgeries.map((each) => engine.docker.createContainer({ ...each, Image: bed.image })));
    try {
      await withRuntime('internet', settled);
      await expectList();
    } finally {
      await Promise.all(forged.map((each) => each.remove({ force: true })));
    }
  });

  it('has its proxy back after its process was killed, it was stopped, or it was removed', async () => {
    const before = (await proxy().inspect()).State.Pid;
    process.kill(before, 'SIGKILL');
    await until('the engine has started it again', async () => {
      const { State } = await proxy().inspect();
      return State.Running && State.Pid !== before ? true : undefined;
    });
    const stop = new AbortController();
    let isConnected = false;
    const listening = (async () => {
      for await (const { kind } of bed.runtime.events(stop.signal)) isConnected ||= kind === 'lost';
    })();
    await until('the event stream stands', () => (isConnected ? true : undefined));
    const isRunning = async () =>
      (
        await proxy()
          .inspect()
          .catch(() => null)
      )?.State.Running === true
        ? true
        : undefined;
    await proxy().kill();
    await until('the service has started it again', isRunning);
    await proxy().remove({ force: true });
    await until('the service has made it again', isRunning);
    await bed.runtime.egress();
    await proxyListens();
    await expectList();
    stop.abort();
    await listening;
  });

  it('keeps its list over a restart of the service and of the engine', async () => {
    await withRuntime('internet', settled);
    await proxyListens();
    await expectList();
    await engine.stop();
    around.nft('flush', 'ruleset');
    await engine.start(dns);
    await withRuntime('internet', async (restarted) => {
      for (const { handle } of [agent, neighbour]) await restarted.start(handle, {});
      await settled(restarted);
    });
    await proxyListens();
    await expectList();
  });

  it('reaches what its new list holds as soon as it is made again', async () => {
    await bed.runtime.remove(neighbour.handle);
    const { agentId } = neighbour;
    neighbour = await bed.running({ ...server, agentId, generation: 2, egress: { allow: [`new.example:${webPort}`] } });
    expect([await gets('new.example', neighbour), await gets('only.example', neighbour)]).toEqual([reached, forbidden]);
    await bed.runtime.remove(neighbour.handle);
    neighbour = await bed.running({ ...server, agentId, generation: 3, egress: { allow: [`only.example:${webPort}`] } });
    await expectList();
  });

  it('reaches nothing where the operator says that agents reach nothing, and its list again later', async () => {
    await withRuntime('none', async (closed) => {
      await settled(closed);
      expect(await gets('somewhere.example')).not.toEqual(reached);
      const made = await closed.create(bed.spec(listed));
      await closed.start(made.handle, {});
      expect(await bed.output(made, 'env')).not.toContain('_proxy');
      await closed.remove(made.handle);
    });
    await withRuntime('internet', settled);
    await expectList();
  });

  it('is held to its list where others may reach everything', async () => {
    const other = await DockerFixture.open(engine.docker, 'all', addresses);
    const free = await other.running(server);
    const held = await other.running(listed);
    const second = await other.running(listed);
    const ask = async (name: string) => other.output(held, `wget -q -O - http://${name}:${webPort}/ 2>&1`);
    const nc = async (host: string, from: ContainerView) =>
      other.output(from, `echo 'GET / HTTP/1.0\r\n\r\n' | nc -w 20 ${host} ${webPort} 2>&1`);
    await call(other.runtime, held, second);
    await until('its proxy listens', async () => ((await ask('other.example')).includes('403') ? true : undefined));
    expect([await ask('somewhere.example'), await ask('other.example'), await ask('inner.example')]).toEqual([
      reached,
      forbidden,
      forbidden,
    ]);
    expect([await nc(places.internet, held), await nc((await placeOf(second)).address, held)]).toEqual([unreached, notFound]);
    expect(await nc(places.neighbour, free)).toContain(`reached ${places.neighbour}`);
    await other.close();
  });

  it('has no proxy any more when it was the last one', async () => {
    for (const { handle } of (await bed.runtime.list()).containers) await bed.runtime.remove(handle);
    await withRuntime('internet', settled);
    expect(await engine.docker.listContainers({ all: true })).toEqual([]);
  });
});
