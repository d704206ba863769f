import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { AttachedSupervisor } from '../../../test/support/supervisor-channel.ts';
import { until } from '../../../test/support/until.ts';
import type { ChannelStream } from './channel-stream.ts';

const WINDOW_BYTES = 1024 * 1024;

describe('the channel to a supervisor', () => {
  let attached: AttachedSupervisor;
  let volume: string;

  beforeAll(async () => {
    attached = await AttachedSupervisor.open();
    volume = realpathSync(mkdtempSync(join(tmpdir(), 'mooring-supervised-')));
  });
  afterAll(async () => {
    await attached?.close();
    rmSync(volume, { recursive: true, force: true });
  });

  const open = (...call: string[]) => attached.channel.open(call, WINDOW_BYTES);
  const command = (boundBytes: number, ...argv: string[]) => open('exec', '60000', String(boundBytes), '', '', '0', ...argv);
  async function textOf(stream: ChannelStream): Promise<string> {
    let text = '';
    for await (const { bytes } of stream.output()) text += bytes.toString();
    return text;
  }

  it('runs a command with its input, folder and variables, and returns its exit code', async () => {
    const stream = open('exec', '60000', '1000', volume, '', '1', 'NAME=a b', 'sh', '-c', 'cat; echo "$NAME"; pwd; exit 3');
    await stream.write(Buffer.from('input\n'));
    stream.endInput();
    expect(await textOf(stream)).toBe(`input\na b\n${volume}\n`);
    expect(await stream.ended()).toEqual({ result: ['exit', '3', '0'], droppedBytes: 0 });
  });

  it('drops output beyond the limit of a command, and counts it', async () => {
    const stream = command(1_000, 'sh', '-c', 'head -c 3000000 /dev/zero');
    stream.endInput();
    expect(await textOf(stream)).toHaveLength(1_000);
    expect((await stream.ended()).droppedBytes).toBe(2_999_000);
  });

  it('sends no more output than there is credit for, and blocks no other call meanwhile', async () => {
    const endless = attached.channel.open(['exec', '60000', '1000000000', '', '', '0', 'yes'], 65_536);
    const outputs = endless.output();
    await outputs.next();
    for (let n = 0; n < 20; n += 1) {
      const quick = command(1_000, 'echo', 'quick');
      quick.endInput();
      expect(await textOf(quick)).toBe('quick\n');
    }
    endless.reset();
    for await (const _ of outputs);
    expect((await endless.ended()).result).toEqual(['refused', 'reset', '']);
  });

  it('accepts input as fast as the command reads it, complete and in order', async () => {
    const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => (index * 7) % 251));
    const stream = command(10_000_000, 'cat');
    const sent = stream.write(bytes).then(() => stream.endInput());
    const parts: Buffer[] = [];
    for await (const part of stream.output()) parts.push(part.bytes);
    await sent;
    expect(Buffer.concat(parts).equals(bytes)).toBe(true);
  });

  it('kills a command at its deadline with all its processes, even those that tried to escape', async () => {
    const mark = `8${Math.floor(Math.random() * 1e8)}`;
    const script = `trap "" TERM; (env -i setsid sleep ${mark} &); sleep ${mark}`;
    const stream = open('exec', '300', '1000', '', '', '0', 'sh', '-c', script);
    stream.endInput();
    await textOf(stream);
    expect((await stream.ended()).result).toEqual(['exit', '137', '1']);
    const look = command(1_000, 'sh', '-c', `pgrep -f "[s]leep ${mark}" || echo none`);
    look.endInput();
    expect(await textOf(look)).toBe('none\n');
  });

  it('opens a terminal of the requested size, and resizes it', async () => {
    const stream = open('terminal', '100', '30', '', '', '1', 'TERM=xterm', 'sh', '-c', 'stty size; read line; stty size; exit 7');
    const outputs = stream.output();
    let text = '';
    const seen = async (what: string) => {
      while (!text.includes(what)) text += (await outputs.next()).value?.bytes.toString();
    };
    await seen('30 100');
    stream.control('resize', '90', '20');
    await stream.write(Buffer.from('\n'));
    await seen('20 90');
    for await (const _ of outputs);
    expect((await stream.ended()).result).toEqual(['exit', '7', '0']);
  });

  it('connects to a port of the container, and reports a port without a listener', async () => {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('data', (bytes) => socket.write(`echo ${bytes.toString()}`));
      socket.on('end', () => socket.end(' bye'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const port = String((server.address() as AddressInfo).port);
    const stream = open('dial', 'tcp', port);
    expect(await stream.head()).toEqual([]);
    await stream.write(Buffer.from('hey'));
    const outputs = stream.output();
    expect((await outputs.next()).value?.bytes.toString()).toBe('echo hey');
    stream.endInput();
    expect((await outputs.next()).value?.bytes.toString()).toBe(' bye');
    for await (const _ of outputs);
    expect((await stream.ended()).result).toEqual(['ok']);
    server.close();
    await once(server, 'close');
    const refused = open('dial', 'tcp', port);
    expect(await refused.head()).toBeNull();
    expect((await refused.ended()).result.slice(0, 2)).toEqual(['refused', 'unreachable']);
  });

  it('reads and lists nothing outside of the volume through links that change while it walks', async () => {
    mkdirSync(join(volume, 'swapped'));
    writeFileSync(join(volume, 'swapped', 'own'), 'own');
    const swap = 'while :; do rm -rf swapped; ln -s /etc swapped; rm swapped; mkdir swapped; echo own > swapped/own; done';
    const swapping = open('exec', '60000', '0', volume, '', '0', 'sh', '-c', swap);
    swapping.endInput();
    for (let n = 0; n < 400; n += 1) {
      const list = open('list', volume, 'swapped', '100', '', '3600');
      list.endInput();
      const listed = await textOf(list);
      const { result } = await list.ended();
      expect(listed).not.toContain('passwd');
      expect(['ok', 'not_found', 'outside_volume', 'not_a_directory']).toContain(result[result.length > 1 ? 1 : 0]);
      const written = open('mkdir', volume, `swapped/mooring-${n}`, '1');
      written.endInput();
      const answer = (await written.ended()).result;
      if (answer[0] === 'ok') expect(answer[1]?.startsWith(`${volume}/swapped`)).toBe(true);
    }
    swapping.reset();
    await swapping.ended();
  });

  it('stays one process with little memory, however much data passed through it', async () => {
    const status = readFileSync(`/proc/${attached.child.pid}/status`, 'utf8');
    expect(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])).toBeLessThan(4_096);
    const links = () => readFileSync(`/proc/${attached.child.pid}/task/${attached.child.pid}/children`, 'utf8').trim();
    await until('no worker is left', async () => (links() === '' ? true : undefined));
    expect(attached.channel.size).toBe(0);
  });

  it('ends its commands when the channel ends', async () => {
    const other = await AttachedSupervisor.open();
    const mark = `9${Math.floor(Math.random() * 1e8)}`;
    const stream = other.channel.open(
      ['exec', '60000', '1000', '', '', '0', 'sh', '-c', `echo begun; env -i setsid sleep ${mark}`],
      WINDOW_BYTES,
    );
    await stream.output().next();
    await other.close();
    await until('the command has ended', async () => {
      const look = command(1_000, 'sh', '-c', `pgrep -f "[s]leep ${mark}" || echo none`);
      look.endInput();
      return (await textOf(look)) === 'none\n' ? true : undefined;
    });
    await expect(stream.ended()).rejects.toThrow('the channel to the agent broke');
  });
});
