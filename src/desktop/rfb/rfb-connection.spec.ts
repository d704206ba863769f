import { duplexPair, type Duplex } from 'node:stream';

import fc from 'fast-check';

import { cutText, fenceOf, greeting, rectangle, FakeRfbServer, serverInit, updateHead } from '../../../test/support/fake-rfb-server.ts';
import { until } from '../../../test/support/until.ts';
import { keyEvent, pointerEvent } from './client-messages.ts';
import { RfbConnection } from './rfb-connection.ts';

const open: RfbConnection[] = [];

async function connect(desktop: FakeRfbServer, timeoutMs = 10_000): Promise<RfbConnection> {
  const connection = await RfbConnection.open(desktop.dial(), { timeoutMs });
  open.push(connection);
  return connection;
}

afterEach(() => {
  for (const connection of open.splice(0)) connection.close();
});

/** Returns the first pixel as a number. */
function colourOf({ pixels }: { pixels: Buffer }): number {
  return pixels.readUIntBE(0, 3);
}

describe.each([
  ['with fences', true],
  ['without fences', false],
])('a frame of a desktop %s', (_, isModern) => {
  it('has the pixels of all rectangles', async () => {
    const desktop = new FakeRfbServer({ isModern });
    const frame = await (await connect(desktop)).capture();
    expect(frame).toMatchObject({ width: 64, height: 48, version: 1 });
    const pixel = Buffer.of(0x10, 0x20, 0x30, 255);
    expect(frame.pixels.equals(Buffer.alloc(64 * 48 * 4, pixel))).toBe(true);
  });

  it('is another one once the desktop shows something else, and else the same', async () => {
    const desktop = new FakeRfbServer({ isModern });
    const connection = await connect(desktop);
    const first = await connection.capture();
    expect(await connection.capture()).toBe(first);
    desktop.paint(0xaa_bb_cc);
    const second = await connection.capture();
    expect([colourOf(first), colourOf(second), second.version]).toEqual([0x10_20_30, 0xaa_bb_cc, 2]);
  });

  const whole = { x: 0, y: 0, width: 64, height: 48 };
  it.each([
    ['leaves all out at first', [], [whole]],
    ['leaves a part out at first', [{ ...whole, height: 20 }], [{ ...whole, y: 20, height: 28 }]],
    [
      'sends some of it twice',
      [
        { ...whole, height: 20 },
        { ...whole, y: 40, height: 2 },
      ],
      [{ ...whole, y: 10, height: 38 }],
    ],
  ])('is whole of a desktop that %s', async (_case, first, rest) => {
    const desktop = new FakeRfbServer({ isModern });
    const connection = await connect(desktop);
    desktop.leavesOut = { first, rest };
    const frame = await connection.capture();
    expect(frame.pixels.equals(Buffer.alloc(64 * 48 * 4, Buffer.of(0x10, 0x20, 0x30, 255)))).toBe(true);
    desktop.paint(0xaa_bb_cc);
    expect(colourOf(await connection.capture())).toBe(0xaa_bb_cc);
  });

  it('has the new size of a screen that was resized', async () => {
    const desktop = new FakeRfbServer({ isModern });
    const connection = await connect(desktop);
    await connection.capture();
    desktop.resize(80, 20);
    await until('the new size', async () => {
      const { width, height } = await connection.capture();
      return width === 80 && height === 20 ? true : undefined;
    });
  });

  it('is requested once for all concurrent callers', async () => {
    const desktop = new FakeRfbServer({ isModern });
    const connection = await connect(desktop);
    await Promise.all(Array.from({ length: 20 }, () => connection.capture()));
    expect(desktop.wholeFrames).toBeLessThanOrEqual(2);
  });

  it('shows the effect of earlier input', async () => {
    const desktop = new FakeRfbServer({ isModern });
    const connection = await connect(desktop);
    await connection.input([keyEvent(0x61, true), keyEvent(0x61, false), pointerEvent(1, 3, 4)]);
    expect(desktop.events).toEqual(['key 61 down', 'key 61 up', 'pointer 3,4 1']);
  });
});

describe('a screen that does not change', () => {
  it('is not sent again, and is when it has changed', async () => {
    const desktop = new FakeRfbServer();
    const connection = await connect(desktop);
    const first = await connection.capture();
    const reused = async () => {
      const before = desktop.wholeFrames;
      const frame = await connection.capture();
      return desktop.wholeFrames === before && frame === first ? true : undefined;
    };
    await until('a frame that is reused', reused, { everyMs: 150 });
    desktop.paint(0x01_02_03);
    expect(colourOf(await connection.capture())).toBe(0x01_02_03);
  });
});

describe('a text for the desktop', () => {
  it.each(['Größe café 你好 🚀', 'two\nlines\r\nand a third', 'x'.repeat(10_000)])('arrives exact', async (text) => {
    const desktop = new FakeRfbServer();
    const { requested } = await (await connect(desktop)).offerText(text);
    await requested;
    await until('the text', () => (desktop.pasted.length > 0 ? true : undefined));
    expect(desktop.pasted).toEqual([text.replaceAll('\r\n', '\n').replaceAll('\n', '\r\n')]);
  });

  it('is sent as Latin-1 to a desktop that supports nothing else, and is refused if it has other characters', async () => {
    const desktop = new FakeRfbServer({ isModern: false });
    const connection = await connect(desktop);
    await connection.offerText('Größe');
    expect(desktop.pasted).toEqual(['Größe']);
    await expect(connection.offerText('你好')).rejects.toThrow(RangeError);
  });
});

/** Plays a server that sends these bytes after the client's answers. It reads what it is sent. */
function hostile(...parts: Buffer[]): Duplex {
  const [client, server] = duplexPair();
  server.on('error', () => undefined).resume();
  for (const part of parts) server.write(part);
  return client;
}

const noPassword = Buffer.concat([greeting(), Buffer.alloc(4)]);
const welcome = Buffer.concat([noPassword, serverInit(64, 48)]);
const raw = (x: number, y: number, width: number, height: number) => rectangle({ x, y, width, height }, 0);
const update = (count: number, ...parts: Buffer[]) => Buffer.concat([welcome, updateHead(count), ...parts]);

describe('a hostile desktop', () => {
  it.each([
    ['speaks another protocol', Buffer.from('HTTP/1.1 200 OK\r\n')],
    ['speaks an old version', Buffer.from('RFB 003.003\n\0\0\0\x01')],
    ['wants a password', Buffer.concat([Buffer.from('RFB 003.008\n'), Buffer.of(1, 2)])],
    ['refuses', Buffer.concat([greeting(), Buffer.of(0, 0, 0, 1)])],
    ['has a screen of 65,535 pixels a side', Buffer.concat([noPassword, serverInit(65_535, 65_535)])],
    ['has a screen without pixels', Buffer.concat([noPassword, serverInit(0, 48)])],
    ['has a name of 4 GB', Buffer.concat([noPassword, serverInit(64, 48, 0xffff_ffff)])],
    ['sends a rectangle outside of its screen', update(1, raw(60, 0, 5, 1))],
    ['sends a huge rectangle', update(1, raw(0, 0, 65_535, 65_535))],
    ['sends more pixels than its screen has', update(2, raw(0, 0, 64, 48), Buffer.alloc(64 * 48 * 4), raw(0, 0, 1, 1))],
    ['sends an encoding that nobody announced', update(1, rectangle({ x: 0, y: 0, width: 1, height: 1 }, 7))],
    ['grows to a huge screen', update(1, rectangle({ x: 0, y: 0, width: 65_535, height: 65_535 }, -223))],
    ['goes on after a new size', update(2, rectangle({ x: 0, y: 0, width: 9, height: 9 }, -223), raw(0, 0, 1, 1))],
    ['has a huge pointer', update(1, rectangle({ x: 0, y: 0, width: 9_999, height: 9_999 }, -239))],
    ['announces a text of 2 GB', Buffer.concat([welcome, cutText(0x7fff_ffff, Buffer.alloc(0))])],
    ['announces an extended text of 2 GB', Buffer.concat([welcome, cutText(-0x8000_0000, Buffer.alloc(0))])],
    ['sends an extended text without flags', Buffer.concat([welcome, cutText(-3, Buffer.alloc(3))])],
    ['sends a fence that is too long', Buffer.concat([welcome, fenceOf(0, Buffer.alloc(65), 65)])],
    ['sends an unknown message', Buffer.concat([welcome, Buffer.of(99)])],
  ])('that %s is unreachable', async (_, bytes) => {
    await expect(RfbConnection.open(hostile(bytes), { timeoutMs: 60_000 })).rejects.toMatchObject({ code: 'desktop_unreachable' });
  });

  it.each([
    ['says nothing', []],
    ['stops in the middle of its greeting', [welcome.subarray(0, 30)]],
    ['never sends a frame', [welcome]],
    ['stops in the middle of a frame', [update(1, raw(0, 0, 64, 48), Buffer.alloc(100))]],
  ])('that %s times out', async (_, parts) => {
    const stream = hostile(...parts);
    await expect(RfbConnection.open(stream, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'desktop_timeout' });
    expect(stream.destroyed).toBe(true);
  });

  it('that goes silent later times out too', async () => {
    const desktop = new FakeRfbServer();
    const connection = await connect(desktop, 1_000);
    desktop.isSilent = true;
    await expect(connection.barrier()).rejects.toMatchObject({ code: 'desktop_timeout' });
    expect(connection.isOpen).toBe(false);
    await expect(connection.capture()).rejects.toMatchObject({ code: 'desktop_timeout' });
  });

  it('that hangs up is unreachable', async () => {
    const desktop = new FakeRfbServer();
    const connection = await connect(desktop);
    const waiting = connection.capture();
    desktop.hangUp();
    await expect(waiting).rejects.toMatchObject({ code: 'desktop_unreachable' });
  });

  const nothing = updateHead(0);
  const pointerMoved = Buffer.concat([updateHead(1), rectangle({ x: 1, y: 1, width: 0, height: 0 }, 0x57_4d_56_66)]);
  const sameRow = Buffer.concat([updateHead(1), raw(0, 0, 64, 1), Buffer.alloc(64 * 4)]);
  it.each([
    ['rings', Buffer.of(2), 'barrier'],
    ['tells of changes that are none', nothing, 'barrier'],
    ['tells of changes that are none in place of the frame', nothing, 'capture'],
    ['tells of its pointer in place of the frame', pointerMoved, 'capture'],
    ['sends the same row in place of the frame', sameRow, 'capture'],
  ] as const)('that %s without end is read slowly, until it times out', async (_, message, waiting) => {
    const desktop = new FakeRfbServer();
    const connection = await connect(desktop, 2_000);
    await connection.capture();
    desktop.isSilent = true;
    const flood = Buffer.concat(Array.from({ length: Math.ceil(16_384 / message.length) }, () => message));
    let sent = 0;
    const send = () => {
      do sent += flood.length;
      while (desktop.send(flood));
    };
    desktop.stream.on('drain', send);
    const waited = connection[waiting]();
    send();
    await expect(waited).rejects.toMatchObject({ code: 'desktop_timeout' });
    expect(sent).toBeLessThan(8_000_000);
  });

  it('that changes its size without end is left', async () => {
    const desktop = new FakeRfbServer();
    const connection = await connect(desktop, 60_000);
    desktop.isSilent = true;
    const sizes = Array.from({ length: 20 }, (_, index) => rectangle({ x: 0, y: 0, width: 64 - (index % 2), height: 48 }, -223));
    const waited = connection.capture();
    desktop.send(Buffer.concat(sizes.flatMap((size) => [updateHead(1), size])));
    await expect(waited).rejects.toMatchObject({ code: 'desktop_unreachable' });
  });

  it('that requests endlessly and reads nothing is disconnected', async () => {
    const [client, server] = duplexPair();
    server.on('error', () => undefined);
    server.write(Buffer.concat([welcome, update(1, raw(0, 0, 1, 1), Buffer.alloc(4)).subarray(welcome.length)]));
    const connection = await RfbConnection.open(client, { timeoutMs: 60_000 });
    const questions = Buffer.concat(Array.from({ length: 900 }, () => fenceOf(0x8000_0000, Buffer.alloc(64))));
    const ask = () => {
      while (!server.destroyed && server.write(questions));
    };
    server.on('drain', ask);
    ask();
    await until('the end of the connection', () => (connection.isOpen ? undefined : true), { timeoutMs: 60_000 });
  });

  it('that sends arbitrary bytes ends with a known error, without delay', async () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.constantFrom(
        updateHead(1),
        updateHead(3),
        raw(0, 0, 4, 1),
        raw(0, 0, 64, 48),
        Buffer.alloc(64 * 48 * 4),
        Buffer.of(2, 2),
        Buffer.of(1),
      ),
      fc.constantFrom(
        fenceOf(1, Buffer.alloc(4)),
        fenceOf(0x8000_0000, Buffer.of(1)),
        cutText(3, Buffer.alloc(3)),
        cutText(-4, Buffer.alloc(4)),
      ),
      fc.constantFrom(rectangle({ x: 1, y: 1, width: 8, height: 8 }, -239), rectangle({ x: 0, y: 0, width: 7, height: 5 }, -223)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
        const [client, server] = duplexPair();
        server.on('error', () => undefined).resume();
        for (const part of [welcome, ...pieces]) server.write(part);
        server.end();
        const work = async () => {
          const connection = await RfbConnection.open(client, { timeoutMs: 60_000 });
          for (let count = 0; count < 3; count += 1) await connection.capture();
          connection.close();
        };
        const error = await work().then(
          () => null,
          (caught: unknown) => caught,
        );
        client.destroy();
        expect(error === null || (error as { code: string }).code === 'desktop_unreachable').toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
