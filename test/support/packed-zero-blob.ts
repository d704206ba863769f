import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { constants, crc32, deflateRawSync } from 'node:zlib';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** The packed file of 10 GiB of zeros, and its name in Git, which takes seconds to compute. */
const SIZE_BYTES = 10 * GIB;
const BLOB = '1119181c4708377b56e8dedc83bba16a2ce4a254';
const BLOB_TYPE = 3;
const ADLER_MODULUS = 65_521;

/** Writes a pack of 10 MiB with a file of 10 GiB zeros to a repository without computing that file, and returns the file's hash. */
export function packZeros(repository: string): string {
  const header = Buffer.concat([Buffer.from('PACK'), word(2), word(1)]);
  const entry = Buffer.concat([entryHeader(), zlibOfZeros()]);
  const pack = withHash(Buffer.concat([header, entry]));
  const hash = pack.subarray(-20);
  const blob = Buffer.from(BLOB, 'hex');
  const fanOut = Array.from({ length: 256 }, (_, first) => word(first >= (blob[0] ?? 0) ? 1 : 0));
  const index = [Buffer.from([0xff, 0x74, 0x4f, 0x63]), word(2), ...fanOut, blob, word(crc32(entry)), word(header.length), hash];
  const path = join(repository, 'objects', 'pack', `pack-${hash.toString('hex')}`);
  writeFileSync(`${path}.pack`, pack);
  writeFileSync(`${path}.idx`, withHash(Buffer.concat(index)));
  return BLOB;
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function withHash(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, createHash('sha1').update(bytes).digest()]);
}

/** Returns the type and the size as a pack spells them: 4 bits of the size, then 7 in each byte. */
function entryHeader(): Buffer {
  const bytes = [(BLOB_TYPE << 4) | (SIZE_BYTES % 16)];
  for (let rest = Math.floor(SIZE_BYTES / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80;
    bytes.push(rest % 128);
  }
  return Buffer.from(bytes);
}

/** Returns the zeros as zlib compresses them. Each MiB is a separate part, so that one is computed and repeated. */
function zlibOfZeros(): Buffer {
  const part = deflateRawSync(Buffer.alloc(MIB), { finishFlush: constants.Z_FULL_FLUSH });
  const lastPart = Buffer.from([0x03, 0x00]);
  const checksum = word((SIZE_BYTES % ADLER_MODULUS) * 65_536 + 1);
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array.from({ length: SIZE_BYTES / MIB }, () => part), lastPart, checksum]);
}
