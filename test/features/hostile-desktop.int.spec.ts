import { duplexPair, type Duplex } from 'node:stream';

import { callTo, DesktopFixture } from '../support/desktop-pool.ts';
import { cutText, fenceOf, greeting, rectangle, FakeRfbServer, serverInit, updateHead } from '../support/fake-rfb-server.ts';
import { until } from '../support/until.ts';

const MIB = 1_048_576;
const options = { format: 'png', quality: 80, scale: 1, region: null, cursor: true } as const;
const screen = serverInit(2_560, 1_600);

/** Answers each byte of the client's with bytes of these kinds, for as long as they are taken. */
type Hostility = (send: (bytes: Buffer) => Promise<void>, isOpen: () => boolean) => Promise<void>;

async function endlessly(send: (bytes: Buffer) => Promise<void>, isOpen: () => boolean, bytes: Buffer): Promise<void> {
  while (isOpen()) await send(bytes);
}

const megabyte = Buffer.alloc(MIB, 0x41);

/** Desktops that do so once they are connected; `unreachable` is a breach of the protocol, a timeout a silence. */
const hostile: [name: string, code: 'desktop_unreachable' | 'desktop_timeout', Hostility][] = [
  [
    'has a screen that is too large',
    'desktop_unreachable',
    async (send) => send(Buffer.concat([greeting(), Buffer.alloc(4), serverInit(65_535, 65_535)])),
  ],
  [
    'has a name of 4 GB',
    'desktop_unreachable',
    async (send) => send(Buffer.concat([greeting(), Buffer.alloc(4), serverInit(640, 480, 0xffff_ffff)])),
  ],
  [
    'sends a rectangle outside of its screen',
    'desktop_unreachable',
    async (send) => {
      await send(Buffer.concat([greeting(), Buffer.alloc(4), screen]));
      await send(Buffer.concat([updateHead(1), rectangle({ x: 60_000, y: 0, width: 65_535, height: 65_535 }, 0)]));
    },
  ],
  [
    'sends more pixels than it has',
    'desktop_unreachable',
    async (send, isOpen) => {
      await send(Buffer.concat([greeting(), Buffer.alloc(4), screen]));
      await send(updateHead(65_535));
      const one = Buffer.concat([rectangle({ x: 0, y: 0, width: 2_560, height: 100 }, 0), Buffer.alloc(2_560 * 100 * 4)]);
      await endlessly(send, isOpen, one);
    },
  ],
  [
    'sends a text without end',
    'desktop_unreachable',
    async (send, isOpen) => {
      await send(Buffer.concat([greeting(), Buffer.alloc(4), screen, cutText(0x7fff_ffff, Buffer.alloc(0))]));
      await endlessly(send, isOpen, megabyte);
    },
  ],
  [
    'sends a fence that is too long',
    'desktop_unreachable',
    async (send) => send(Buffer.concat([greeting(), Buffer.alloc(4), screen, fenceOf(0x8000_0000, Buffer.alloc(200))])),
  ],
  [
    'sends texts one after the other',
    'desktop_timeout',
    async (send, isOpen) => {
      await send(Buffer.concat([greeting(), Buffer.alloc(4), screen]));
      await endlessly(send, isOpen, cutText(65_536, Buffer.alloc(65_536)));
    },
  ],
  ['sends anything', 'desktop_unreachable', async (send, isOpen) => endlessly(send, isOpen, megabyte)],
  ['never greets', 'desktop_timeout', async () => undefined],
  ['never answers', 'desktop_timeout', async (send) => send(Buffer.concat([greeting(), Buffer.alloc(4), screen]))],
];

/** Returns the client's end of a connection to a hostile desktop. */
function dialHostile(attack: Hostility): Duplex {
  const [client, server] = duplexPair();
  for (const each of [client, server]) each.on('error', () => undefined);
  client.once('close', () => server.destroy());
  server.once('close', () => client.destroy());
  server.resume();
  const isOpen = () => !server.destroyed;
  let resume = () => {};
  server.on('drain', () => resume());
  server.once('close', () => resume());
  const send = async (bytes: Buffer) => {
    if (!server.write(bytes) && isOpen()) await new Promise<void>((resolve) => (resume = resolve));
    // Others have to get their turn, too.
    await new Promise((resolve) => setImmediate(resolve));
  };
  void attack(send, isOpen).catch(() => undefined);
  return client;
}

const beds: DesktopFixture[] = [];
afterEach(async () => {
  for (const each of beds.splice(0)) await each.close();
});

/** Returns desktops of which that of the computer `friendly` is a usual one. */
function bedWith(attack: Hostility): { bed: DesktopFixture; friendly: FakeRfbServer } {
  const friendly = new FakeRfbServer({ width: 320, height: 240 });
  const bed = new DesktopFixture(({ computerId }) => (computerId === 'friendly' ? friendly.dial() : dialHostile(attack)));
  beds.push(bed);
  return { bed, friendly };
}

describe('a desktop that', () => {
  it.each(hostile)(
    '%s is answered by %s, and harms nobody else',
    async (_, code, attack) => {
      const { bed } = bedWith(attack);
      globalThis.gc?.();
      const before = process.memoryUsage();
      let most = 0;
      const attacked = [1, 2, 3].map((index) => bed.screens.capture(callTo(`hostile ${index}`), options).catch((error: unknown) => error));
      const acted = bed.actions
        .run(callTo('hostile 1'), { action: 'key', text: 'a' }, (outcome) => outcome)
        .catch((error: unknown) => error);
      const all = Promise.all([...attacked, acted]);
      let isOver = false;
      void all.then(() => (isOver = true));
      await until('the end', async () => {
        const { rss, external, arrayBuffers } = process.memoryUsage();
        most = Math.max(most, rss - before.rss, external + arrayBuffers - before.external - before.arrayBuffers);
        expect((await bed.screens.capture(callTo('friendly', { accountId: 'another' }), options)).screen).toEqual({
          width: 320,
          height: 240,
        });
        return isOver ? true : undefined;
      });
      for (const error of await all) expect(error).toMatchObject({ name: 'Refusal', code });
      // Four connections with a frame of 16 MB each, and what streams buffer.
      expect(most).toBeLessThan(200 * MIB);
      expect(bed.computers.held).toBe(0);
    },
    120_000,
  );
});

describe('the memory of frames', () => {
  it('is waited for by the account that has its share, and by nobody else', async () => {
    const { bed } = bedWith(async (send) => send(Buffer.concat([greeting(), Buffer.alloc(4), screen])));
    // More desktops than fit into half of the memory, whose frames never come.
    const giveUp = new AbortController();
    const many = Array.from({ length: 12 }, (_, index) =>
      bed.screens.capture(callTo(`hostile ${index}`, { signal: giveUp.signal }), options).catch((error: unknown) => error),
    );
    await until('a picture of somebody else', async () => {
      const friendly = bed.screens.capture(callTo('friendly', { accountId: 'another' }), options);
      return (await friendly).image.width === 320 ? true : undefined;
    });
    giveUp.abort(new Error('given up'));
    for (const error of await Promise.all(many)) expect(error).toMatchObject({ message: 'given up' });
  });
});
