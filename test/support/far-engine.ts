import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { PrivateEngine, requirePrograms } from './private-engine.ts';
import { until } from './until.ts';

/** A private engine on a separate machine with one address, which this machine reaches from two addresses. */
export class FarEngine {
  private readonly folder = mkdtempSync(join(tmpdir(), 'mooring-far-'));
  private readonly network = `10.${randomInt(100, 200)}.${randomInt(256)}`;
  private readonly device = `far${randomInt(1_000_000)}`;
  private server: ChildProcess | null = null;
  /** The address of the engine's machine. */
  readonly address = `${this.network}.1`;
  /** The address from which this machine reaches it. */
  readonly service = `${this.network}.2`;
  /** Another address of this machine. */
  readonly stranger = `${this.network}.3`;

  private constructor(readonly engine: PrivateEngine) {}

  static async open(): Promise<FarEngine> {
    const far = new FarEngine(await PrivateEngine.open());
    const { engine, device, address, service, stranger } = far;
    run(['ip', 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'out']);
    run(['ip', 'link', 'set', 'out', 'netns', String(engine.pid)]);
    for (const each of [service, stranger]) run(['ip', 'address', 'add', `${each}/24`, 'dev', device]);
    run(['ip', 'link', 'set', device, 'up']);
    run([...engine.inside, 'ip', 'address', 'add', `${address}/24`, 'dev', 'out']);
    run([...engine.inside, 'ip', 'link', 'set', 'out', 'up']);
    return far;
  }

  /** Starts the engine behind its socket file and behind TLS. Returns the environment of a service that uses TLS. */
  async startWithTls(): Promise<Record<string, string>> {
    requirePrograms('openssl');
    const at = (name: string) => join(this.folder, name);
    const openssl = (...words: string[]) => run(['openssl', ...words]);
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    openssl('req', '-x509', ...key, '-keyout', at('ca-key.pem'), '-out', at('ca.pem'), '-subj', '/CN=ca', '-days', '2');
    const sign = (name: string, use: string, more: string) => {
      writeFileSync(at('extensions'), `extendedKeyUsage=${use}\n${more}`);
      openssl('req', ...key, '-keyout', at(`${name}-key.pem`), '-out', at('request.pem'), '-subj', `/CN=${name}`);
      const ca = ['-CA', at('ca.pem'), '-CAkey', at('ca-key.pem'), '-CAcreateserial'];
      openssl('x509', '-req', '-in', at('request.pem'), ...ca, '-extfile', at('extensions'), '-days', '2', '-out', at(`${name}.pem`));
    };
    sign('server', 'serverAuth', `subjectAltName=IP:${this.address}\n`);
    sign('client', 'clientAuth', '');
    const client = at('client');
    mkdirSync(client);
    const files = { 'ca.pem': 'ca.pem', 'cert.pem': 'client.pem', 'key.pem': 'client-key.pem' };
    for (const [name, from] of Object.entries(files)) writeFileSync(join(client, name), readFileSync(at(from)));
    const tls = ['--tlsverify', '--tlscacert', at('ca.pem'), '--tlscert', at('server.pem'), '--tlskey', at('server-key.pem')];
    await this.engine.start(['--host', `tcp://${this.address}:2376`, ...tls]);
    return { DOCKER_HOST: `tcp://${this.address}:2376`, DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: client };
  }

  /** Starts sshd there. Returns the environment of a service that uses it, and the configuration of ssh. */
  async startSsh(): Promise<{ environment: Record<string, string>; config: string }> {
    requirePrograms('sshd', 'ssh', 'ssh-keygen');
    const at = (name: string) => join(this.folder, name);
    for (const name of ['host', 'user']) run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', at(name)]);
    writeFileSync(at('known'), `${this.address} ${readFileSync(at('host.pub'), 'utf8')}`);
    writeFileSync(at('config'), `IdentityFile ${at('user')}\nIdentitiesOnly yes\nUserKnownHostsFile ${at('known')}\n`);
    const settings = [
      `ListenAddress ${this.address}`,
      `HostKey ${at('host')}`,
      `AuthorizedKeysFile ${at('user.pub')}`,
      'StrictModes no',
      'PidFile none',
      'UsePAM no',
      'PasswordAuthentication no',
    ];
    writeFileSync(at('sshd'), settings.join('\n'));
    await this.letSshIn();
    return { environment: { DOCKER_HOST: `ssh://root@${this.address}${this.engine.socket}` }, config: at('config') };
  }

  /** Returns an ssh configuration that does not know the machine's key. */
  withoutKnownHosts(config: string): string {
    writeFileSync(`${config}-unknown`, readFileSync(config, 'utf8').replace(/^(UserKnownHostsFile .*)$/m, '$1-none'));
    return `${config}-unknown`;
  }

  async letSshIn(): Promise<void> {
    mkdirSync('/run/sshd', { recursive: true });
    const [program = '', ...words] = this.engine.inside;
    const sshd = execFileSync('which', ['sshd'], { encoding: 'utf8' }).trim();
    this.server = spawn(program, [...words, sshd, '-D', '-e', '-f', join(this.folder, 'sshd')], { stdio: 'ignore', detached: true });
    await until('sshd listens', () => this.isOpen(22));
  }

  /** Kills sshd with all of its connections, which are processes of one session. */
  async cutSshOff(): Promise<void> {
    if (this.server?.pid === undefined) return;
    const ended = once(this.server, 'exit');
    const leader = this.server.pid;
    const connections = run(['ps', '-e', '-o', 'pid=,ppid='])
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
    const children = connections.filter(([, parent]) => parent === leader).map(([pid]) => pid);
    const descendants = [...children, ...connections.filter(([, parent]) => children.includes(parent)).map(([pid]) => pid)];
    for (const pid of [leader, ...descendants]) kill(pid);
    await ended;
    this.server = null;
  }

  async close(): Promise<void> {
    await this.cutSshOff();
    await this.engine.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private isOpen(port: number): Promise<true | undefined> {
    return new Promise((resolve) => {
      const socket = connect({ host: this.address, port });
      const settle = (open: true | undefined) => {
        socket.destroy();
        resolve(open);
      };
      socket.once('connect', () => settle(true)).once('error', () => settle(undefined));
    });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended with its parent.
  }
}

function run([program = '', ...words]: string[]): string {
  return execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}
