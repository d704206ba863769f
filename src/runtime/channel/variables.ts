import { encodeFields } from './frames.ts';

const MAGIC = Buffer.from('MOORING2');

/**
 * Encodes what the first process of a container waits for on its standard input: the agent's variables, and the names of those that it is not
 * to have though its container has them. Two services that start one container at once may both be told that they did, and what they write then
 * comes mixed: the sum shows it.
 */
export function encodeVariables(environment: Readonly<Record<string, string>>, removed: readonly string[] = []): Buffer {
  const fields = encodeFields([...removed, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)]);
  const facts = Buffer.allocUnsafe(8);
  facts.writeUInt32LE(fields.length, 0);
  facts.writeUInt32LE(sumOf(fields), 4);
  return Buffer.concat([MAGIC, facts, fields]);
}

/** The checksum FNV-1a of 32 bits. */
function sumOf(bytes: Buffer): number {
  let sum = 0x811c_9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x0100_0193);
  return sum >>> 0;
}
