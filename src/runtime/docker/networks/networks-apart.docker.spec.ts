import { execFileSync } from 'node:child_process';
import { closeAll } from '../../../../test/support/close-all.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { FakeNetwork, places, webPort } from '../../../../test/support/fake-network.ts';
import { PrivateEngine, requirePrograms } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import { labels, networkName } from '../engine/names.ts';
import { networkOptions } from './bridges.ts';

const command = ['/bin/busybox', 'httpd', '-f', '-p', String(webPort), '-h', '/www'];

jest.setTimeout(120_000);

describe('agents and builds that may reach everything else, on an engine whose own rules are gone', () => {
  let engine: PrivateEngine;
  let around: FakeNetwork;
  let bed: DockerFixture;
  /** The containers, by what they are. */
  const containers = new Map<string, string>();

  beforeAll(async () => {
    requirePrograms('iptables');
    engine = await PrivateEngine.open();
    around = await FakeNetwork.open(engine);
    await engine.start();
    bed = await DockerFixture.open(engine.docker, 'all');
    containers.set('an agent', (await bed.running({ command })).handle);
    containers.set('an agent without a way out', (await bed.running({ command, egress: 'none' })).handle);
    containers.set('a builder', await onNetwork(networkName(bed.instance, 'builds')));
    for (const name of ['one', 'two']) containers.set(`build ${name}`, await onNetwork(name, { [labels.build]: name }));
    // The service does so before each build that gets a network.
    await reload();
    // It would load its rules each minute, perhaps in the middle of a test.
    await bed.runtime.close();
    // Engines take these rules away for moments, as Docker 20.10 does whenever a network is made.
    iptables('-P', 'FORWARD', 'ACCEPT');
    iptables('-F', 'FORWARD');
    iptables('-t', 'raw', '-F', 'PREROUTING');
    for (const handle of containers.values()) await until('it serves', () => serves(handle));
  });
  afterAll(() => closeAll(bed?.runtime, around, engine));

  function iptables(...more: string[]): void {
    const [program = '', ...words] = engine.inside;
    execFileSync(program, [...words, 'iptables', '--wait', ...more]);
  }

  /** Starts a server on a network of builds, where a step of a build would be. */
  async function onNetwork(Name: string, more: Record<string, string> = {}): Promise<string> {
    const Labels = { [labels.instance]: bed.instance };
    await engine.docker.createNetwork({ Name, Options: networkOptions('builds'), Labels: { ...Labels, ...more } });
    const made = await engine.docker.createContainer({ Image: bed.image, Cmd: command, Labels, HostConfig: { NetworkMode: Name } });
    await made.start();
    return made.id;
  }

  async function addressOf(handle: string): Promise<string> {
    const [network] = Object.values((await engine.docker.getContainer(handle).inspect()).NetworkSettings.Networks);
    return network?.IPAddress ?? '';
  }

  async function serves(handle: string): Promise<true | undefined> {
    const host = await addressOf(handle);
    try {
      return around.ask(host, webPort) === '404' ? true : undefined;
    } catch {
      return undefined;
    }
  }

  /** Returns whether a container gets an answer from an address. */
  async function reaches(handle: string, host: string): Promise<boolean> {
    const { State } = await engine.docker.getContainer(handle).inspect();
    const get = `fetch('http://${host}:${webPort}/').then(() => console.log('reached'), () => undefined).then(() => process.exit())`;
    const source = `setTimeout(process.exit, 2_000); ${get}`;
    const words = [`--net=/proc/${State.Pid}/ns/net`, process.execPath, '-e', source];
    return execFileSync('nsenter', words, { encoding: 'utf8' }).includes('reached');
  }

  /** Returns who reaches whom. */
  async function reached(): Promise<string[]> {
    const ways: string[] = [];
    for (const [from, handle] of containers)
      for (const [to, other] of containers)
        if (from !== to && (await reaches(handle, await addressOf(other)))) ways.push(`${from} → ${to}`);
    return ways;
  }

  async function reload(): Promise<void> {
    const restarted = bed.another();
    expect(await restarted.egress()).toMatchObject({ lack: null, linkLack: null });
    await restarted.close();
  }

  it('reach none of each other', async () => {
    expect(await reached()).toEqual([]);
  });

  it('are still reached by the service, and reach their host and others, but for the agent without a way out', async () => {
    for (const [name, handle] of containers) {
      expect(around.ask(await addressOf(handle), webPort)).toBe('404');
      const reach: Record<string, boolean> = { host: await reaches(handle, await around.gatewayOf(handle)) };
      for (const place of ['machine', 'neighbour', 'internet'] as const) reach[place] = await reaches(handle, places[place]);
      const may = name !== 'an agent without a way out';
      expect({ name, reach }).toEqual({ name, reach: { host: may, machine: may, neighbour: may, internet: may } });
    }
  });

  it('reach each other where somebody took the service’s rules away too, until it has loaded them again', async () => {
    around.nft('delete', 'table', 'inet', `mooring_${bed.instance}`);
    expect(await reached()).toEqual(
      expect.arrayContaining(['an agent → a builder', 'a builder → an agent', 'build one → build two', 'build one → an agent']),
    );
    for (const _ of ['once', 'and again']) {
      await reload();
      expect(await reached()).toEqual([]);
    }
  });
});
