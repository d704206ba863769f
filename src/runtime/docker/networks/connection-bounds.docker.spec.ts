import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { until } from '../../../../test/support/until.ts';
import { egressRules } from './egress-rules.ts';

const bridges = { open: ['br-test'], closed: [], builds: [], listed: [], links: [] };
const rules = egressRules('abc', 'internet', bridges, { nameservers: [], ranges: [], mirrors: [], proxies: ['10.250.0.9'] });
/** Sends a datagram from the address to as many ports, each of which is a connection to the kernel. */
const flood = `const [, from, count] = process.argv;
const socket = require('node:dgram').createSocket('udp4').on('error', () => undefined);
let sent = 0;
const next = () => (sent++ < count ? socket.send('x', 1000 + sent, '203.0.113.7', next) : socket.close());
socket.bind(0, from, next);`;

/** A network namespace that ends with the test. */
class Space {
  private constructor(private readonly holder: ChildProcess) {}

  static async open(): Promise<Space> {
    const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
    const own = readlinkSync('/proc/self/ns/net');
    await until('the namespace stands', () => (readlinkSync(`/proc/${holder.pid}/ns/net`) === own ? undefined : true));
    return new Space(holder);
  }

  get pid(): string {
    return String(this.holder.pid);
  }

  run(program: string, words: string[], input = ''): string {
    return execFileSync('nsenter', [`--net=/proc/${this.pid}/ns/net`, program, ...words], { input, encoding: 'utf8' });
  }

  ip(line: string): void {
    this.run('ip', line.split(' '));
  }

  async close(): Promise<void> {
    const ended = once(this.holder, 'exit');
    this.holder.kill('SIGKILL');
    await ended;
  }
}

describe('an agent that opens more connections than the host has places for', () => {
  let host: Space;
  let agent: Space;
  beforeAll(async () => {
    [host, agent] = [await Space.open(), await Space.open()];
    for (const line of [
      'link add br-test type bridge',
      'address add 10.250.0.1/22 dev br-test',
      `link add port type veth peer name eth0 netns ${agent.pid}`,
      'link set port master br-test',
      'link add out type veth peer name wire',
      'link set wire up',
      'link set out up',
      'link set port up',
      'link set br-test up',
      'route add 203.0.113.0/24 dev out',
      'neigh add 203.0.113.7 lladdr 02:00:00:00:00:07 dev out',
    ])
      host.ip(line);
    for (const last of [2, 3, 9]) agent.ip(`address add 10.250.0.${last}/22 dev eth0`);
    agent.ip('link set eth0 up');
    agent.ip('route add default via 10.250.0.1');
    host.run('sysctl', ['-q', '-w', 'net.ipv4.ip_forward=1']);
    host.run('nft', ['-f', '-'], rules);
  });
  afterAll(async () => {
    await agent.close();
    await host.close();
  });

  const send = (from: string, count: number) => void agent.run(process.execPath, ['-e', flood, from, String(count)]);
  const refused = () =>
    Number(/counter refused_connections \{\s*packets (\d+)/.exec(host.run('nft', ['list', 'table', 'inet', 'mooring_abc']))?.[1]);
  const held = () => Number(host.run('cat', ['/proc/sys/net/netfilter/nf_conntrack_count']));

  it('is refused those beyond its share, while the rules are loaded again, and another agent is not', () => {
    send('10.250.0.2', 3_000);
    host.run('nft', ['-f', '-'], rules);
    send('10.250.0.2', 3_000);
    expect(held()).toBeGreaterThan(1_500);
    expect(held()).toBeLessThanOrEqual(2_100);
    const before = refused();
    expect(before).toBeGreaterThan(900);
    send('10.250.0.3', 50);
    expect(refused()).toBe(before);
  });

  it('leaves the proxy of other agents its own share', () => {
    const before = refused();
    send('10.250.0.9', 3_000);
    expect(refused()).toBe(before);
  });
});
