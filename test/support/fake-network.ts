import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { requirePrograms, type PrivateEngine } from './private-engine.ts';
import { until } from './until.ts';

/** The addresses of programs that an agent of a private engine may try to reach. */
export const places = {
  /** The address of the engine's machine in its own network. */
  machine: '10.77.0.1',
  /** The address of another machine of that network. */
  neighbour: '10.77.0.2',
  nameserver: '10.77.0.53',
  metadata: '169.254.169.254',
  /** An address that looks like one of the internet. */
  internet: '203.0.113.7',
} as const;
export const webPort = 8080;

/**
 * Answers HTTP on every address with the address that was called, and DNS on port 53: with the neighbour's address for names that begin
 * with `inner`, and with an internet address for every other one.
 */
const neighbourProgram = `
  const http = require('node:http'), udp = require('node:dgram').createSocket('udp4');
  http.createServer((request, response) => response.end('reached ' + request.socket.localAddress)).listen(${webPort}, '0.0.0.0', () => {
    udp.bind(53, '${places.nameserver}', () => console.log('ready'));
  });
  udp.on('message', (query, { address, port }) => {
    const end = query.indexOf(0, 12) + 5, isA = query.readUInt16BE(end - 4) === 1;
    const head = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0]), query.subarray(12, end)]);
    const place = query.toString('latin1', 13, 18) === 'inner' ? [${places.neighbour.split('.').join(', ')}] : [${places.internet.split('.').join(', ')}];
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...place]);
    udp.send(isA ? Buffer.concat([head, answer]) : head, port, address);
  });`;

/** A second network namespace, to which the machine of a private engine routes all traffic that is not its own. */
export class FakeNetwork {
  private constructor(
    private readonly engine: PrivateEngine,
    private readonly programs: ChildProcess[],
  ) {}

  static async open(engine: PrivateEngine): Promise<FakeNetwork> {
    requirePrograms('nft');
    const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
    const space = () => readlinkSync(`/proc/${holder.pid}/ns/net`);
    await until('the namespace stands', () => (space() === readlinkSync('/proc/self/ns/net') ? undefined : true));
    const here = ['nsenter', `--net=/proc/${holder.pid}/ns/net`];
    run([...engine.inside, 'ip', 'link', 'add', 'out', 'type', 'veth', 'peer', 'name', 'in', 'netns', String(holder.pid)]);
    run([...engine.inside, 'ip', 'address', 'add', `${places.machine}/24`, 'dev', 'out']);
    run([...engine.inside, 'ip', 'link', 'set', 'out', 'up']);
    for (const place of ['neighbour', 'nameserver', 'metadata', 'internet'] as const)
      run([...here, 'ip', 'address', 'add', `${places[place]}/${place === 'neighbour' ? 24 : 32}`, 'dev', 'in']);
    run([...here, 'ip', 'link', 'set', 'in', 'up']);
    run([...here, 'ip', 'link', 'set', 'lo', 'up']);
    run([...engine.inside, 'ip', 'route', 'add', 'default', 'via', places.neighbour]);
    const neighbourhood = new FakeNetwork(engine, [holder]);
    await neighbourhood.listen(here, neighbourProgram);
    await neighbourhood.listen(
      engine.inside,
      `
      require('node:http').createServer((_, response) => response.end('reached the host')).listen(${webPort}, '0.0.0.0', () => console.log('ready'));`,
    );
    return neighbourhood;
  }

  /** Returns the status with which an HTTP server answers the engine's machine, where the service would run. */
  ask(host: string, port: number): string {
    const source = `fetch('http://${host}:${port}/').then(async (answer) => process.stdout.write(String(answer.status)));`;
    return run([...this.engine.inside, process.execPath, '-e', source]);
  }

  /** Runs nft on the engine's machine. */
  nft(...words: string[]): string {
    return run([...this.engine.inside, 'nft', ...words]);
  }

  /** Runs ip on the engine's machine; what follows `-batch -` is its input. */
  ip(...words: string[]): string {
    const input = words[0] === '-batch' ? words.pop() : undefined;
    const [program = '', ...inside] = this.engine.inside;
    return execFileSync(program, [...inside, 'ip', ...words], { encoding: 'utf8', input: input ?? '', stdio: ['pipe', 'pipe', 'pipe'] });
  }

  /** Returns the address that the engine's machine has in the container's network. Some engines do not report that of a closed network. */
  async gatewayOf(container: string): Promise<string> {
    const [network] = Object.values((await this.engine.docker.getContainer(container).inspect()).NetworkSettings.Networks);
    const [link] = JSON.parse(this.ip('-json', '-4', 'address', 'show', `br-${network?.NetworkID.slice(0, 12)}`)) as {
      addr_info: { local: string }[];
    }[];
    return link?.addr_info[0]?.local ?? 'none';
  }

  async close(): Promise<void> {
    for (const program of this.programs.toReversed()) {
      const ended = once(program, 'exit');
      program.kill('SIGKILL');
      await ended;
    }
  }

  private async listen(inside: string[], source: string): Promise<void> {
    const [program = '', ...words] = inside;
    const child = spawn(program, [...words, process.execPath, '-e', source], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.programs.push(child);
    await once(child.stdout as NodeJS.ReadableStream, 'data');
  }
}

function run([program = '', ...words]: string[]): string {
  return execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}
