import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:https';
import { createServer, type AddressInfo } from 'node:net';
import { until } from '../support/until.ts';

/** The delay after which a server that ended by itself is started again, in ms. */
const againMs = 500;

/**
 * The running servers, which are killed at the end: one that outlived the soak would keep its port, and the next run would connect to it.
 */
const running = new Set<ChildProcess>();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

/**
 * An EventStoreDB that is started by the caller's command: arguments are appended to it, and it has to become the server itself (`exec`).
 * It is always restarted: a deposed leader with events that no other node has ends by itself, to drop them at its next start.
 */
export class ServerProcess {
  private child: ChildProcess | null = null;
  private wanted = false;

  constructor(
    private readonly command: string,
    private readonly words: string[],
  ) {}

  start(): void {
    // The server reads every EVENTSTORE_… variable as its own setting, so ours are left out.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('EVENTSTORE_')));
    const child = spawn('/bin/sh', ['-c', `exec ${this.command} "$@"`, 'sh', ...this.words], { stdio: 'ignore', env });
    this.child = child;
    this.wanted = true;
    running.add(child);
    child.once('exit', () => {
      running.delete(child);
      setTimeout(() => this.wanted && this.child === child && this.start(), againMs);
    });
  }

  get running(): boolean {
    return this.child !== null && this.child.exitCode === null && this.child.signalCode === null;
  }

  signal(signal: NodeJS.Signals): void {
    this.child?.kill(signal);
  }

  /** Sends the signal, and waits until the process ends. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.wanted = false;
    if (!this.running || this.child === null) return;
    const ended = once(this.child, 'exit');
    this.signal(signal);
    await ended;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function untilLive(port: number): Promise<void> {
  const live = () => fetch(`http://127.0.0.1:${port}/health/live`).then(({ status }) => status === 204 || undefined);
  await until('the server is live', () => live().catch(() => undefined), { everyMs: 20 });
}

interface Member {
  state: string;
  isAlive: boolean;
  httpEndPointIp: string;
}

/** A cluster of three nodes; the command gets the node's number and the folder that all share. */
export class ClusterProcess {
  readonly nodes: ServerProcess[];
  private readonly hosts: string[];

  constructor(command: string, folder: string, url: string) {
    this.nodes = [1, 2, 3].map((number) => new ServerProcess(command, [String(number), folder]));
    this.hosts = (/@([^/?]+)/.exec(url)?.[1] ?? '').split(',');
  }

  start(): void {
    for (const node of this.nodes) node.start();
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) node.signal('SIGCONT');
    await Promise.all(this.nodes.map((node) => node.end('SIGKILL')));
  }

  /** Returns the leader, once all three nodes run and agree. */
  leader(): Promise<ServerProcess> {
    return until('the cluster is whole', () => this.findLeader(), { timeoutMs: 120_000, everyMs: 100 });
  }

  private async findLeader(): Promise<ServerProcess | undefined> {
    const views = await Promise.all(this.hosts.map((host) => gossipOf(host).catch(() => [])));
    const leaders = views.map((members) => {
      const whole = members.length === 3 && members.every(({ isAlive, state }) => isAlive && /^(Leader|Follower)$/.test(state));
      return whole ? members.find(({ state }) => state === 'Leader')?.httpEndPointIp : undefined;
    });
    const [first] = leaders;
    if (first === undefined || leaders.some((leader) => leader !== first)) return undefined;
    return this.nodes[this.hosts.findIndex((host) => host.startsWith(`${first}:`))];
  }
}

function gossipOf(host: string): Promise<Member[]> {
  return new Promise((resolve, reject) => {
    const asked = request(`https://${host}/gossip`, { rejectUnauthorized: false, timeout: 1_000, agent: false }, (answer) => {
      let text = '';
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
      answer.on('end', () => {
        try {
          resolve((JSON.parse(text) as { members: Member[] }).members);
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
    asked.on('timeout', () => asked.destroy(new Error('no answer')));
    asked.on('error', reject);
    asked.end();
  });
}
