import { encodeFields } from './frames.ts';

const MAGIC = Buffer.from('MOORING2');

/**
 * Encodes the input that the first process of a container waits for: the agent's variables, and the names of those that its container has
 * and it must not have. Two services that start one container at the same time may both believe that they did, and their input is then
 * mixed; the checksum reveals that.
 */
export function encodeVariables(environment: Readonly<Record<string, string>>, removed: readonly string[] = []): Buffer {
  const fields = encodeFields([...removed, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)]);
  const facts = Buffer.allocUnsafe(8);
  facts.writeUInt32LE(fields.length, 0);
  facts.writeUInt32LE(sumOf(fields), 4);
  return Buffer.concat([MAGIC, facts, fields]);
}

/** The 32-bit FNV-1a checksum. */
function sumOf(bytes: Buffer): number {
  let sum = 0x811c_9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x0100_0193);
  return sum >>> 0;
}
