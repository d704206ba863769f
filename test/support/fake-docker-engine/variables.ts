import type { Duplex } from 'node:stream';
import { decodeFields } from '../../../src/runtime/channel/frames.ts';

const MAGIC = 'MOORING2';

/**
 * Calls back with the variables once they have arrived completely, as a supervisor that reads them from its standard input starts its
 * agent.
 */
export function onVariables(socket: Duplex, callback: (variables: Record<string, string>) => void): void {
  const chunks: Buffer[] = [];
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('end', () => {
    socket.end();
    const variables = parseVariables(Buffer.concat(chunks));
    if (variables !== null) callback(variables);
  });
}

/** Parses what a supervisor reads at its start; null if it is incomplete. */
function parseVariables(bytes: Buffer): Record<string, string> | null {
  if (bytes.length < 16 || bytes.toString('latin1', 0, 8) !== MAGIC || bytes.length < 16 + bytes.readUInt32LE(8)) return null;
  const fields = decodeFields(bytes.subarray(16, 16 + bytes.readUInt32LE(8))).map(String);
  const pairs = fields.filter((field) => field.includes('='));
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
}
