import type { Duplex } from 'node:stream';

import type { ByteReader } from './byte-reader.ts';
import { DesktopUnreachable } from './desktop-errors.ts';
import { checkSize, type ScreenSize } from './frame.ts';

const VERSION = 'RFB 003.008\n';
const SECURITY_NONE = 1;
const NAME_BYTES_MAX = 65_536;

/** Greets the server as RFB 3.8 says, without a password, as one of several clients, and returns the size of the screen. */
export async function handshake(reader: ByteReader, stream: Duplex): Promise<ScreenSize> {
  const version = (await reader.read(12)).toString('latin1');
  if (!/^RFB 003\.\d{3}\n$/.test(version) || version < VERSION) throw new DesktopUnreachable('it speaks no RFB 3.8');
  stream.write(VERSION);
  const [count = 0] = await reader.read(1);
  const types = await reader.read(count);
  if (!types.includes(SECURITY_NONE)) throw new DesktopUnreachable('it wants a password, or refuses connections');
  stream.write(Buffer.of(SECURITY_NONE));
  if ((await reader.read(4)).readUInt32BE() !== 0) throw new DesktopUnreachable('it refused the connection');
  const isShared = 1;
  stream.write(Buffer.of(isShared));
  const init = await reader.read(24);
  const size = { width: init.readUInt16BE(0), height: init.readUInt16BE(2) };
  checkSize(size);
  const nameBytes = init.readUInt32BE(20);
  if (nameBytes > NAME_BYTES_MAX) throw new DesktopUnreachable(`its name has ${nameBytes} bytes`);
  await reader.skip(nameBytes);
  return size;
}
