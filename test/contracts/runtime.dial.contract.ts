import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { eventually, say, type RuntimeFixture } from './runtime.fixture.contract.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { ContainerGone, RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

const DIALS_MAX = 40;

export function dials(bed: RuntimeFixture): void {
  let view: ContainerView;
  const opened: Duplex[] = [];
  beforeAll(async () => {
    view = await bed.running();
    await bed.ask(view, 'GET', '/socket/echo');
  });
  afterAll(() => opened.forEach((connection) => connection.destroy()));

  async function dial(to: string | number, of = view, signal = timeoutSignal(20_000)): Promise<Duplex> {
    const target = typeof to === 'number' ? { port: to } : { unix: `/data/${to}` };
    const connection = await bed.runtime.dial(of.handle, target, signal);
    opened.push(connection);
    return connection;
  }
  const connections = async (name: string) => (await bed.ask(view, 'GET', `/connections/${name}`)).text;

  /** Reads so many bytes; fewer if the connection ends before. */
  async function read(connection: Duplex, bytes: number): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of connection.iterator({ destroyOnReturn: false })) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length >= bytes) break;
    }
    return Buffer.concat(chunks);
  }

  it('reach a socket by its path in the container, and carry all data in both directions', async () => {
    const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => (index * 7) % 251));
    const connection = await dial('echo');
    connection.write(bytes);
    expect((await read(connection, bytes.length)).equals(bytes)).toBe(true);
    connection.destroy();
    await eventually(async () => expect(await connections('echo')).toBe('0'));
  });

  it('reach a socket with a long name', async () => {
    const name = 's'.repeat(80);
    await bed.ask(view, 'GET', `/socket/${name}`);
    const connection = await dial(name);
    connection.write('hello');
    expect((await read(connection, 5)).toString()).toBe('hello');
    connection.destroy();
  });

  it('reach a socket in an in-memory folder, which is empty at each start', async () => {
    const sockets = '/run/user/1000';
    const alone = await bed.running(
      { XDG_RUNTIME_DIR: sockets },
      { tmpfs: [{ path: sockets, uid: 10_001, mode: 0o700, sizeBytes: 65_536 }] },
    );
    const dialled = () => bed.runtime.dial(alone.handle, { unix: `${sockets}/echo` }, timeoutSignal(20_000));
    for (let start = 0; start < 2; start += 1) {
      await expect(dialled()).rejects.toThrow(RuntimeRefused);
      await bed.ask(alone, 'GET', '/socket/echo');
      const connection = await dialled();
      connection.write('hello');
      expect((await read(connection, 5)).toString()).toBe('hello');
      connection.destroy();
      await bed.runtime.stop(alone.handle, 1);
      await bed.start(alone);
      await bed.answers(alone);
    }
  });

  it('reach a port of the loopback address', async () => {
    const connection = await dial(8080);
    connection.write('GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n');
    expect((await read(connection, Infinity)).toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*ok/);
  });

  it('end with the other side, after all of its data', async () => {
    await bed.ask(view, 'GET', '/socket/says/say/bye');
    const connection = await dial('says');
    const closed = once(connection, 'close');
    expect((await read(connection, Infinity)).toString()).toBe('bye');
    await closed;
  });

  it('without a reader block neither another connection nor a command, and lose nothing', async () => {
    await bed.ask(view, 'GET', '/socket/flood/flood/8000000');
    const slow = await dial('flood');
    const quick = await dial('echo');
    quick.write('hello');
    expect((await read(quick, 5)).toString()).toBe('hello');
    expect((await bed.runtime.exec(view.handle, say('hi'))).stdout.toString()).toBe('hi');
    expect(await read(slow, Infinity)).toHaveLength(8_000_000);
    quick.destroy();
  });

  it('stay open while the container is frozen, and continue when it is thawed', async () => {
    if (!(await bed.runtime.capabilities()).freeze) return;
    const alone = await bed.running();
    await bed.ask(alone, 'GET', '/socket/echo');
    const connection = await dial('echo', alone);
    await bed.runtime.freeze(alone.handle);
    connection.write('hello');
    await expect(dial('echo', alone)).rejects.toThrow(RuntimeRefused);
    await bed.runtime.thaw(alone.handle);
    expect((await read(connection, 5)).toString()).toBe('hello');
    const another = await dial('echo', alone);
    another.write('again');
    expect((await read(another, 5)).toString()).toBe('again');
  });

  it('close when the container ends', async () => {
    const alone = await bed.running();
    await bed.ask(alone, 'GET', '/socket/echo');
    const connection = await dial('echo', alone);
    const closed = once(connection.resume(), 'close');
    await bed.runtime.stop(alone.handle, 1);
    await closed;
    await expect(dial('echo', alone)).rejects.toThrow(RuntimeRefused);
    await bed.runtime.remove(alone.handle);
    await expect(dial('echo', alone)).rejects.toThrow(ContainerGone);
  });

  it('are limited to 40 in a container, which leaves room for commands', async () => {
    const all = await Promise.all(Array.from({ length: DIALS_MAX }, () => dial('echo')));
    await expect(dial('echo')).rejects.toThrow(/as many connections as it may/);
    expect((await bed.runtime.exec(view.handle, say('hi'))).stdout.toString()).toBe('hi');
    const other = await bed.running();
    await bed.ask(other, 'GET', '/socket/echo');
    (await dial('echo', other)).destroy();
    const [first, ...rest] = all;
    const closed = once(first as Duplex, 'close');
    first?.destroy();
    await closed;
    (await dial('echo')).destroy();
    for (const each of rest) each.destroy();
    await eventually(async () => expect(await connections('echo')).toBe('0'));
  });

  it('are refused if no program listens, and for invalid targets', async () => {
    await bed.ask(view, 'PUT', '/file/plain', 'x');
    for (const to of ['none', 'none/below', 'plain', 'plain/below', 4_711])
      await expect(dial(to)).rejects.toThrow(/Nobody in the container/);
    const never = [
      { unix: 'echo' },
      { unix: '' },
      { unix: '/data/ec\0ho' },
      { unix: `/${'x'.repeat(107)}` },
      { port: 0 },
      { port: 65_536 },
    ];
    for (const to of [...never, { port: 1.5 }])
      await expect(bed.runtime.dial(view.handle, to, timeoutSignal(20_000))).rejects.toThrow(RuntimeRefused);
    await expect(dial('echo', await bed.created())).rejects.toThrow(RuntimeRefused);
  });

  it('are aborted with the caller’s reason while they are being established, and not afterwards', async () => {
    const reason = new Error('the caller has gone');
    await expect(dial('echo', view, AbortSignal.abort(reason))).rejects.toBe(reason);
    const caller = new AbortController();
    const connection = await dial('echo', view, caller.signal);
    caller.abort(reason);
    connection.write('hello');
    expect((await read(connection, 5)).toString()).toBe('hello');
    connection.destroy();
  });
}
