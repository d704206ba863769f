import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { readlinkSync } from 'node:fs';

import { closeAll } from '../../../../test/support/close-all.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { requirePrograms } from '../../../../test/support/private-engine.ts';
import { arrivals, type Station } from '../../../../test/support/raw-frames.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerView } from '../../container.ts';

const webPort = 8080;
const server = { command: ['/bin/busybox', 'httpd', '-f', '-p', String(webPort), '-h', '/www'] };

/** Some of the frames that arrive where nothing keeps them. */
const frames = ['a question by ARP', 'an answer by ARP for the gateway', 'another type', 'another type for all', 'a length'];

jest.setTimeout(120_000);

const run = (program: string, ...words: string[]): string => execFileSync(program, words, { encoding: 'utf8' });

describe('an agent with the right to raw sockets', () => {
  let bed: DockerFixture;
  let attacker: ContainerView;
  let victim: ContainerView;
  const holders: ChildProcess[] = [];

  beforeAll(async () => {
    requirePrograms('nft', 'nsenter', 'unshare', 'ip', 'python3');
    bed = await DockerFixture.open(undefined, 'all');
    victim = await bed.running(server);
    attacker = await bed.running();
  });
  afterAll(async () => {
    for (const holder of holders) holder.kill('SIGKILL');
    await closeAll(bed);
  });

  async function placeOf(id: string): Promise<Station & { gateway: string }> {
    const { State, NetworkSettings } = await bed.docker.getContainer(id).inspect();
    const [network] = Object.values(NetworkSettings.Networks);
    const { MacAddress: mac = '', IPAddress: ip = '', Gateway: gateway = '' } = network ?? {};
    return { pid: State.Pid, device: 'eth0', mac, ip, gateway };
  }

  /** Returns what arrives at the second container; the host ends the wait. */
  async function sent(from: string, to: string): Promise<string[]> {
    const [sender, receiver] = [await placeOf(from), await placeOf(to)];
    const { gateway } = receiver.gateway === '' ? { gateway: receiver.ip.replace(/\d+$/, '1') } : receiver;
    return arrivals(sender, receiver, gateway, () => tell(receiver.ip));
  }

  async function tell(host: string): Promise<void> {
    const socket = createSocket('udp4');
    await new Promise((resolve) => socket.send('frame:end;', 4_000, host, resolve));
    socket.close();
  }

  /** Returns the status with which the agent answers its service. */
  async function answer(agent: ContainerView, { runtime } = bed): Promise<number> {
    const { host, port } = await runtime.address(agent, webPort);
    const ask = () =>
      fetch(`http://${host}:${port}/none`, { headers: { connection: 'close' } }).then(
        ({ status }) => status,
        () => undefined,
      );
    return until('the agent answers', ask);
  }

  async function reload(): Promise<void> {
    const restarted = bed.another();
    expect(await restarted.egress()).toMatchObject({ lack: null, linkLack: null });
    await restarted.close();
  }

  /** Starts a process in a network of its own. */
  async function namespace(): Promise<number> {
    const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
    holders.push(holder);
    const { pid = 0 } = holder;
    const space = () => readlinkSync(`/proc/${pid}/ns/net`);
    await until('the namespace stands', () => (space() === readlinkSync('/proc/self/ns/net') ? undefined : true));
    return pid;
  }

  it('reaches no other one by any frame, also where everything else is allowed, and nobody keeps it from its service', async () => {
    expect(await answer(victim)).toBe(404);
    expect(await sent(attacker.handle, victim.handle)).toEqual([]);
    expect(await answer(victim)).toBe(404);
    expect(await sent(victim.handle, attacker.handle)).toEqual([]);
  });

  it('reaches others where somebody took the rules away, until the service has loaded them again', async () => {
    for (const family of ['bridge', 'ip']) run('nft', 'delete', 'table', family, `mooring_${bed.instance}`);
    expect(await sent(attacker.handle, victim.handle)).toEqual(expect.arrayContaining(frames));
    await reload();
    expect(await sent(attacker.handle, victim.handle)).toEqual([]);
    run('nft', 'flush', 'table', 'bridge', `mooring_${bed.instance}`);
    await reload();
    expect(await sent(attacker.handle, victim.handle)).toEqual([]);
  });

  it('reaches no other one on an engine that makes MAC addresses up', async () => {
    const { mac } = await placeOf(victim.handle);
    const made = async (MacAddress: string) => {
      const options = { Image: bed.image, MacAddress, Labels: { 'mooring.instance': bed.instance } };
      const container = await bed.docker.createContainer({ ...options, HostConfig: { NetworkMode: `mooring-${bed.instance}` } });
      await container.start();
      return container.id;
    };
    const [one, other] = [await made('5a:11:22:33:44:55'), await made('9e:66:77:88:99:aa')];
    expect((await placeOf(one)).mac).not.toBe(mac);
    await reload();
    expect(await sent(one, other)).toEqual([]);
    expect(await sent(one, victim.handle)).toEqual([]);
    for (const id of [one, other]) await bed.docker.getContainer(id).remove({ force: true });
  });

  it('is counted when it looks for others', async () => {
    await sent(attacker.handle, victim.handle);
    const restarted = bed.another();
    expect((await restarted.egress()).refused.get('agents')).toBeGreaterThan(0);
    await restarted.close();
  });

  it('reaches no other one that has no way out, or a list of names, which reach their proxy', async () => {
    const strict = await DockerFixture.open(undefined, 'internet');
    const gets = (agent: ContainerView) => strict.output(agent, 'wget -q -O - http://other.example/ 2>&1');
    for (const egress of ['none' as const, { allow: ['somewhere.example'] }]) {
      const [one, other] = [await strict.running({ ...server, egress }), await strict.running({ ...server, egress })];
      const ways = async () => Promise.all([answer(one, strict), answer(other, strict), gets(one), gets(other)]);
      const forbidden = expect.stringContaining(egress === 'none' ? 'bad address' : '403');
      await until('the proxy listens', async () =>
        (await ways()).slice(2).some((way) => String(way).includes('refused')) ? undefined : true,
      );
      expect(await ways()).toEqual([404, 404, forbidden, forbidden]);
      expect(await sent(one.handle, other.handle)).toEqual([]);
      expect(await ways()).toEqual([404, 404, forbidden, forbidden]);
    }
    await strict.close();
  });

  /** Makes a network that is none of the service's, and returns what one of its containers gets of another. */
  async function amongOthers(IPAM?: { Config: object[] }): Promise<string[]> {
    const Labels = { 'mooring.instance': bed.instance };
    const network = await bed.docker.createNetwork({ Name: `foreign-${bed.instance}`, Labels, ...(IPAM === undefined ? {} : { IPAM }) });
    const made = async () => {
      const container = await bed.docker.createContainer({ Image: bed.image, Labels, HostConfig: { NetworkMode: network.id } });
      await container.start();
      return container;
    };
    const [one, other] = [await made(), await made()];
    for (const { id } of [one, other]) await tell((await placeOf(id)).ip);
    const arrived = await sent(one.id, other.id);
    for (const container of [one, other]) await container.remove({ force: true });
    await network.remove();
    return arrived;
  }

  it('leaves the containers of others alone', async () => {
    await reload();
    expect(await amongOthers()).toEqual(expect.arrayContaining(frames));
  });

  it('leaves the containers of others alone that have the addresses of a network that was removed, though no service runs', async () => {
    const gone = await DockerFixture.open(undefined, 'all');
    const { handle } = await gone.running();
    await gone.runtime.close();
    const network = gone.docker.getNetwork(`mooring-${gone.instance}`);
    const Config = ((await network.inspect()) as { IPAM: { Config: object[] } }).IPAM.Config;
    await gone.docker.getContainer(handle).remove({ force: true });
    await network.remove();
    expect(await amongOthers({ Config })).toEqual(expect.arrayContaining(frames));
    await gone.close();
  });

  it('leaves machines on another bridge alone, though they have the addresses of agents', async () => {
    const bridge = `x${bed.instance.slice(0, 8)}`;
    run('ip', 'link', 'add', bridge, 'type', 'bridge');
    const { ip, gateway } = await placeOf(victim.handle);
    const stations: Station[] = [];
    for (const end of ['a', 'b']) {
      const pid = await namespace();
      run('ip', 'link', 'add', `${bridge}${end}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid));
      run('ip', 'link', 'set', `${bridge}${end}`, 'master', bridge, 'up');
      const inside = (...words: string[]) => run('nsenter', `--net=/proc/${pid}/ns/net`, ...words);
      inside('ip', 'link', 'set', 'eth0', 'up');
      const [{ address = '' } = {}] = JSON.parse(inside('ip', '-json', 'link', 'show', 'eth0')) as { address?: string }[];
      stations.push({ pid, device: 'eth0', mac: address, ip });
    }
    run('ip', 'link', 'set', bridge, 'up');
    await reload();
    const [one, other] = stations as [Station, Station];
    expect(await arrivals(one, other, gateway)).toEqual(expect.arrayContaining(frames));
    run('ip', 'link', 'delete', bridge);
  });
});
