import { encodeFields } from './frames.ts';

const MAGIC = Buffer.from('MOORING1');

/**
 * Encodes what the first process of a container waits for on its standard input: the agent's variables, and the names of those that it is not
 * to have though its container has them.
 */
export function encodeVariables(environment: Readonly<Record<string, string>>, removed: readonly string[] = []): Buffer {
  const fields = encodeFields([...removed, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)]);
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32LE(fields.length);
  return Buffer.concat([MAGIC, length, fields]);
}
