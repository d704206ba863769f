import { duplexPair, type Duplex } from 'node:stream';
import { inflateSync } from 'node:zlib';

import { ByteReader } from '../../src/desktop/rfb/byte-reader.ts';

export interface FakeRfbOptions {
  width?: number;
  height?: number;
  /** Knows fences and the extended clipboard, as TigerVNC does; by default it does. */
  isModern?: boolean;
  /** Sends the rectangles of an update in this many parts. */
  parts?: number;
}

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The events that the desktop got, such as `key ff0d down` and `pointer 10,20 1`. */
type DeskEvent = string;

/** A desktop in memory that speaks RFB: it records input, and shows one colour until it is painted again. */
export class FakeRfbServer {
  readonly events: DeskEvent[] = [];
  /** The texts that the desktop's programs got from the clipboard. */
  readonly pasted: string[] = [];
  /** The number of requested frames, and of connections. */
  wholeFrames = 0;
  connections = 0;
  width: number;
  height: number;
  colour = 0x10_20_30;
  /** Answers nothing. */
  isSilent = false;
  /** Responds to the next frame request with only this part of it, and with the rest to the following request. */
  leavesOut: { first: Place[]; rest: Place[] } | null = null;
  /** Called with each event before it is recorded. */
  onEvent: (event: DeskEvent) => void = () => undefined;
  private server: Duplex | null = null;
  private client: Duplex | null = null;
  private isWatched = false;
  private owed: Place[] | null = null;
  private readonly options: Required<FakeRfbOptions>;

  constructor(options: FakeRfbOptions = {}) {
    this.options = { width: 64, height: 48, isModern: true, parts: 3, ...options };
    this.width = this.options.width;
    this.height = this.options.height;
  }

  /** Returns the client's end of a new connection. */
  dial(): Duplex {
    const [client, server] = duplexPair();
    this.connections += 1;
    this.server = server;
    this.client = client;
    this.isWatched = false;
    server.on('error', () => undefined);
    server.once('close', () => client.destroy());
    void this.serve(server).catch(() => undefined);
    return client;
  }

  /** The keys and buttons that are down. */
  get held(): string[] {
    const keys = new Set<string>();
    let buttons = '0';
    for (const event of this.events) {
      const [kind = '', what = '', how = ''] = event.split(' ');
      if (kind === 'pointer') buttons = how;
      else if (how === 'down') keys.add(what);
      else keys.delete(what);
    }
    return [...keys, ...(buttons === '0' ? [] : [`buttons ${buttons}`])];
  }

  /** The value is true while the client has not ended the latest connection. */
  get isConnected(): boolean {
    return this.client?.destroyed === false;
  }

  /** Ends the connection from the desktop's side. */
  hangUp(): void {
    this.server?.destroy();
  }

  /** Sends bytes as they are. */
  send(bytes: Buffer): boolean {
    return this.server?.write(bytes) === true;
  }

  get stream(): Duplex {
    if (this.server === null) throw new Error('nobody is connected');
    return this.server;
  }

  /** Shows another colour. */
  paint(colour: number): void {
    this.colour = colour;
    if (!this.isWatched) return;
    this.isWatched = false;
    this.send(Buffer.concat([updateHead(1), rectangle({ x: 0, y: 0, width: 2, height: 1 }, 0), this.pixels(2)]));
  }

  /** Changes the size of the screen. */
  resize(width: number, height: number): void {
    this.width = width;
    this.height = height;
    this.isWatched = false;
    this.send(Buffer.concat([updateHead(1), rectangle({ x: 0, y: 0, width, height }, -223)]));
  }

  private async serve(server: Duplex): Promise<void> {
    const reader = new ByteReader(server);
    server.write(greeting());
    await reader.read(12);
    await reader.read(1);
    server.write(Buffer.alloc(4));
    await reader.read(1);
    server.write(serverInit(this.width, this.height));
    for (;;) await this.answer(server, reader);
  }

  private async answer(server: Duplex, reader: ByteReader): Promise<void> {
    const [type] = await reader.read(1);
    if (type === 0) await reader.skip(19);
    else if (type === 2) await this.greetEncodings(server, reader);
    else if (type === 3) await this.answerRequest(server, reader);
    else if (type === 4) {
      const body = await reader.read(7);
      this.record(`key ${body.readUInt32BE(3).toString(16)} ${body[0] === 1 ? 'down' : 'up'}`);
    } else if (type === 5) {
      const body = await reader.read(5);
      this.record(`pointer ${body.readUInt16BE(1)},${body.readUInt16BE(3)} ${body[0]}`);
    } else if (type === 6) await this.takeText(server, reader);
    else if (type === 248) {
      const head = await reader.read(8);
      const payload = await reader.read(head[7] ?? 0);
      if (!this.isSilent) server.write(fenceOf(head.readUInt32BE(3) & 0x7fff_ffff, payload));
    } else throw new Error(`the client sent a message of type ${type}`);
  }

  private async greetEncodings(server: Duplex, reader: ByteReader): Promise<void> {
    const count = (await reader.read(3)).readUInt16BE(1);
    await reader.skip(4 * count);
    if (!this.options.isModern) return;
    server.write(fenceOf(0x8000_0000, Buffer.alloc(0)));
    server.write(extendedText((0x1f << 24) | 1, Buffer.alloc(4)));
  }

  private async answerRequest(server: Duplex, reader: ByteReader): Promise<void> {
    const body = await reader.read(9);
    const [width, height] = [body.readUInt16BE(5), body.readUInt16BE(7)];
    if (this.isSilent) return;
    if (body[0] === 1) {
      if (this.owed !== null) this.sendPlaces(server, this.owed);
      else this.isWatched = true;
      this.owed = null;
      return;
    }
    this.isWatched = false;
    if (width === 1 && height === 1) {
      server.write(Buffer.concat([updateHead(1), rectangle({ x: 0, y: 0, width, height }, 0), this.pixels(width * height)]));
      return;
    }
    this.wholeFrames += 1;
    if (this.leavesOut !== null) {
      this.sendPlaces(server, this.leavesOut.first);
      this.owed = this.leavesOut.rest;
      this.leavesOut = null;
      return;
    }
    for (const part of this.frame()) server.write(part);
  }

  /** Returns an update: the left column of pixels, and then bands that fill the rest. */
  private frame(): Buffer[] {
    const { parts } = this.options;
    const edges = Array.from({ length: parts + 1 }, (_, index) => Math.floor((this.height * index) / parts));
    const bands = edges.slice(1).map((end, index) => {
      const height = end - (edges[index] as number);
      const [left, right] = [1, this.width - 1].map((width) => ({ width, height, y: edges[index] as number }));
      return [
        { ...left, x: 0 },
        { ...right, x: 1 },
      ] as const;
    });
    const rectangles = bands.flat() as Place[];
    return [updateHead(rectangles.length), ...rectangles.flatMap((each) => [rectangle(each, 0), this.pixels(each.width * each.height)])];
  }

  private sendPlaces(server: Duplex, places: Place[]): void {
    const all = places.flatMap((place) => [rectangle(place, 0), this.pixels(place.width * place.height)]);
    server.write(Buffer.concat([updateHead(places.length), ...all]));
  }

  private pixels(count: number): Buffer {
    const pixel = Buffer.alloc(4);
    pixel.writeUInt32BE(this.colour * 0x100);
    return Buffer.alloc(4 * count, pixel);
  }

  /** Requests a text at once when the client has one, as a program does in which shift and Insert are pressed. */
  private async takeText(server: Duplex, reader: ByteReader): Promise<void> {
    const length = (await reader.read(7)).readInt32BE(3);
    const body = await reader.read(Math.abs(length));
    if (length >= 0) {
      this.pasted.push(body.toString('latin1'));
      return;
    }
    const flags = body.readUInt32BE();
    const isCaps = (flags & (1 << 24)) !== 0;
    if (isCaps) return;
    if ((flags & (1 << 27)) !== 0) server.write(extendedText((1 << 25) | 1, Buffer.alloc(0)));
    if ((flags & (1 << 28)) !== 0) this.pasted.push(inflateSync(body.subarray(4)).subarray(4, -1).toString());
  }

  private record(event: DeskEvent): void {
    this.onEvent(event);
    this.events.push(event);
  }
}

/** Returns the first two messages of a server that requires no password. */
export function greeting(): Buffer {
  return Buffer.concat([Buffer.from('RFB 003.008\n'), Buffer.of(1, 1)]);
}

export function serverInit(width: number, height: number, nameBytes = 4): Buffer {
  const init = Buffer.alloc(28);
  init.writeUInt16BE(width, 0);
  init.writeUInt16BE(height, 2);
  init.writeUInt32BE(nameBytes, 20);
  return init;
}

export function updateHead(rectangles: number): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(rectangles, 2);
  return head;
}

export function rectangle(place: Place, encoding: number): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(place.x, 0);
  head.writeUInt16BE(place.y, 2);
  head.writeUInt16BE(place.width, 4);
  head.writeUInt16BE(place.height, 6);
  head.writeInt32BE(encoding, 8);
  return head;
}

/** Returns a clipboard message with its declared length, which is negative for an extended one. */
export function cutText(length: number, body: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 3;
  head.writeInt32BE(length, 4);
  return Buffer.concat([head, body]);
}

export function fenceOf(flags: number, payload: Buffer, length = payload.length): Buffer {
  const head = Buffer.alloc(9);
  head[0] = 248;
  head.writeUInt32BE(flags, 4);
  head[8] = length;
  return Buffer.concat([head, payload]);
}

function extendedText(flags: number, body: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(flags >>> 0);
  return cutText(-4 - body.length, Buffer.concat([head, body]));
}
