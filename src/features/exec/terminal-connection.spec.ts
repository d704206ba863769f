import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Duplex } from 'node:stream';

import fc from 'fast-check';
import { WebSocket, WebSocketServer } from 'ws';

import { until } from '../../../test/support/until.ts';
import type { Terminal } from '../../runtime/runtime.ts';
import { connectTerminal, sizeOf } from './terminal-connection.ts';

const CHUNK_BYTES = 65_536;

/** A terminal whose shell prints so many bytes, as fast as they are taken, and reads its input only when it is told to. */
class Flood extends Duplex implements Pick<Terminal, 'ended'> {
  printed = 0;
  sizes: string[] = [];
  private takeOn: (() => void)[] = [];
  readonly ended = new Promise<null>(() => undefined);

  constructor(private readonly bytes: number) {
    super();
  }

  override _read(): void {
    if (this.printed >= this.bytes) return;
    this.printed += CHUNK_BYTES;
    this.push(Buffer.alloc(CHUNK_BYTES, 'x'));
  }

  override _write(_: Buffer, __: string, done: () => void): void {
    this.takeOn.push(done);
  }

  get stream(): Duplex {
    return this;
  }

  get taken(): number {
    return this.takeOn.length;
  }

  readOn(): void {
    for (const done of this.takeOn.splice(0)) done();
  }

  async resize(cols: number, rows: number): Promise<void> {
    this.sizes.push(`${cols}x${rows}`);
  }
}

/** Connects a caller with the terminal. */
async function connected(flood: Flood) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const asked = once(server, 'connection');
  const caller = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const opened = once(caller, 'open');
  const [socket] = (await asked) as [WebSocket];
  const inputs: number[] = [];
  const over = connectTerminal(socket, flood, () => inputs.push(1));
  await opened;
  return { server, caller, socket, over, inputs };
}

describe('a terminal’s connection', () => {
  it('reads no more output from the shell than a slow reader reads, and loses none', async () => {
    const bytes = 1_600 * CHUNK_BYTES;
    const flood = new Flood(bytes);
    const { server, caller, socket } = await connected(flood);
    let received = 0;
    caller.on('message', (data: Buffer) => (received += data.length));
    caller.pause();
    await until('the reading stops', () => (flood.isPaused() && socket.bufferedAmount > 0 ? true : undefined));
    expect(flood.printed).toBeLessThan(bytes / 2);
    caller.resume();
    await until('all is received', () => (received === bytes ? true : undefined));
    caller.terminate();
    server.close();
  });

  it('reads no more input from a flooding caller than the shell reads', async () => {
    const flood = new Flood(0);
    const { server, caller, socket } = await connected(flood);
    const frame = Buffer.alloc(CHUNK_BYTES, 'x');
    for (let sent = 0; sent < 200; sent += 1) caller.send(frame);
    await until('the reading stops', () => (socket.isPaused ? true : undefined));
    expect(flood.taken + flood.writableLength / CHUNK_BYTES).toBeLessThan(10);
    const reading = setInterval(() => flood.readOn(), 1);
    await until('all is taken', () => (caller.bufferedAmount === 0 ? true : undefined));
    clearInterval(reading);
    // The server's side is paused again, so it does not notice that the caller leaves.
    socket.terminate();
    caller.terminate();
    server.close();
  });

  it('ends with 1008 and a reason after a text frame that is no size', async () => {
    const { server, caller, over } = await connected(new Flood(0));
    caller.send('{"type":"resize","cols":0,"rows":5}');
    const [code, reason] = (await once(caller, 'close')) as [number, Buffer];
    expect([code, reason.toString()]).toEqual([1008, 'A text frame must be {"type":"resize","cols":…,"rows":…}.']);
    expect(await over).toBe('socket');
    server.close();
  });

  it('has the last requested size', async () => {
    const flood = new Flood(0);
    const { server, caller } = await connected(flood);
    for (const cols of [90, 100, 110]) caller.send(JSON.stringify({ type: 'resize', cols, rows: 30 }));
    await until('the last size is set', () => (flood.sizes.at(-1) === '110x30' ? true : undefined));
    caller.terminate();
    server.close();
  });
});

describe('a text frame', () => {
  it('is a size of 1 to 1000 columns and rows, and nothing else', () => {
    const side = fc.oneof(fc.integer({ min: -5, max: 1_005 }), fc.double(), fc.string(), fc.constant(null));
    fc.assert(
      fc.property(side, side, fc.constantFrom('resize', 'input', undefined), (cols, rows, type) => {
        const isSize = (value: unknown) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 1_000;
        const expected = type === 'resize' && isSize(cols) && isSize(rows) ? { cols, rows } : null;
        expect(sizeOf(JSON.stringify({ type, cols, rows }))).toEqual(expected);
      }),
    );
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(() => sizeOf(text)).not.toThrow();
      }),
    );
  });
});
