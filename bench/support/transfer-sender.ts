import { createHash, randomBytes } from 'node:crypto';
import { request, type ClientRequest } from 'node:http';
import { once } from 'node:events';

/**
 * Sends files to agents, or fetches them, all concurrently, in a process of its own. An order arrives as a message, and the outcome is sent
 * back.
 */

export interface TransferOrder {
  url: string;
  key: string;
  agentIds: string[];
  kind: 'upload' | 'download';
  count: number;
  bytes: number;
}

export interface Transferred {
  status: number;
  sha256: string;
  bytes: number;
  ms: number;
}

const BLOCK = randomBytes(65_536);
const nameOf = (n: number) => `transfer-${n}`;

process.once('disconnect', () => process.exit(0));
process.once('message', (order: TransferOrder) => {
  const one = order.kind === 'upload' ? upload : download;
  const all = Array.from({ length: order.count }, (_, n) =>
    one(order, n, `/api/agents/${order.agentIds[n % order.agentIds.length]}/files`),
  );
  void Promise.all(all).then((outcomes) => process.send?.(outcomes));
});

async function upload({ url, key, bytes }: TransferOrder, n: number, path: string): Promise<Transferred> {
  const head = `--b\r\ncontent-disposition: form-data; name="file"; filename="${nameOf(n)}"\r\n\r\n`;
  const tail = '\r\n--b\r\ncontent-disposition: form-data; name="dest_dir"\r\n\r\ntransfers\r\n--b--\r\n';
  const hash = createHash('sha256');
  const began = performance.now();
  const length = String(bytes + head.length + tail.length);
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'multipart/form-data; boundary=b', 'content-length': length };
  const call = request(`${url}${path}/upload`, { method: 'POST', headers });
  const outcome = { known: false };
  const answered = statusOf(call).finally(() => (outcome.known = true));
  call.write(head);
  for (let sent = 0; sent < bytes && !outcome.known; sent += BLOCK.length) {
    const block = Buffer.from(BLOCK.subarray(0, Math.min(BLOCK.length, bytes - sent)));
    block.writeUInt32LE(n, 0);
    hash.update(block);
    if (!call.write(block)) await Promise.race([once(call, 'drain').catch(() => undefined), answered]);
  }
  call.end(tail);
  return { status: await answered, sha256: hash.digest('hex'), bytes, ms: performance.now() - began };
}

async function download({ url, key }: TransferOrder, n: number, path: string): Promise<Transferred> {
  const hash = createHash('sha256');
  let bytes = 0;
  const began = performance.now();
  const call = request(`${url}${path}/download?path=transfers/${nameOf(n)}`, { headers: { authorization: `Bearer ${key}` } });
  const status = await statusOf(call, (chunk) => {
    hash.update(chunk);
    bytes += chunk.length;
  });
  return { status, sha256: hash.digest('hex'), bytes, ms: performance.now() - began };
}

/** Ends the request's response. Returns its status; 0 if there was none. */
function statusOf(call: ClientRequest, onChunk: (chunk: Buffer) => void = () => undefined): Promise<number> {
  return new Promise((resolve) => {
    call.on('error', () => resolve(0));
    call.on('response', (response) => {
      response.on('data', onChunk);
      if (response.statusCode !== 200) response.on('data', (chunk: Buffer) => console.error(chunk.toString()));
      response.on('error', () => resolve(0));
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    if (call.method === 'GET') call.end();
  });
}
