import type { Duplex } from 'node:stream';

import type { ByteReader } from './byte-reader.ts';
import { DesktopUnreachable } from './desktop-errors.ts';
import { checkSize, type ScreenSize } from './frame.ts';

const VERSION = 'RFB 003.008\n';
const SECURITY_NONE = 1;
/** The last message of the handshake, after which a server starts to send. It requests a desktop shared with other clients. */
export const CLIENT_INIT = Buffer.of(1);
const NAME_BYTES_MAX = 65_536;

/** Performs the RFB 3.8 handshake without a password, up to `CLIENT_INIT`. Throws `DesktopUnreachable`, and what `read` throws. */
export async function greet(read: (bytes: number) => Promise<Buffer>, stream: Duplex): Promise<void> {
  const version = (await read(VERSION.length)).toString('latin1');
  if (!/^RFB 003\.\d{3}\n$/.test(version) || version < VERSION) throw new DesktopUnreachable('it speaks no RFB 3.8');
  stream.write(VERSION);
  const [count = 0] = await read(1);
  const types = count === 0 ? Buffer.alloc(0) : await read(count);
  if (!types.includes(SECURITY_NONE)) throw new DesktopUnreachable('it wants a password, or refuses connections');
  stream.write(Buffer.of(SECURITY_NONE));
  if ((await read(4)).readUInt32BE() !== 0) throw new DesktopUnreachable('it refused the connection');
}

/** Performs the whole handshake as one of several clients, and returns the size of the screen. */
export async function handshake(reader: ByteReader, stream: Duplex): Promise<ScreenSize> {
  await greet((bytes) => reader.read(bytes), stream);
  stream.write(CLIENT_INIT);
  const init = await reader.read(24);
  const size = { width: init.readUInt16BE(0), height: init.readUInt16BE(2) };
  checkSize(size);
  const nameBytes = init.readUInt32BE(20);
  if (nameBytes > NAME_BYTES_MAX) throw new DesktopUnreachable(`its name has ${nameBytes} bytes`);
  await reader.skip(nameBytes);
  return size;
}
