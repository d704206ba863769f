import { once } from 'node:events';
import { Socket } from 'node:net';

import ipaddr from 'ipaddr.js';

import { timeoutSignal } from '../kernel/async/timeout-signal.ts';
import type { AgentAddress } from '../kernel/network/agent-address.ts';

/** Data from an agent is parsed in pieces of this size, in bytes. */
const PIECE_BYTES = 4 * 1024;
/** The timeout for connecting through a relay, in ms. */
const RELAY_MS = 10_000;
/** The most connections through relays. Each needs a file descriptor at both ends, and an ssh process fails at 10,000. */
const RELAYED_MAX = 4_000;
/** The constants of SOCKS 4: the version, the connect command, the length of a reply, and the code for success. */
const SOCKS = { version: 4, connect: 1, replyBytes: 8, granted: 0x5a };

/**
 * A connection to an agent, which may send anything at any rate. Node reads up to 64 KiB at once for as long as there is data, and its HTTP
 * parser parses all of it, even if the first bytes have ended the exchange. This connection passes on small pieces, none after it was
 * destroyed, and yields to other work after each read.
 */
class AgentConnection extends Socket {
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) return super.push(null);
    for (let at = 0; at < chunk.length && !this.destroyed; at += PIECE_BYTES) super.push(chunk.subarray(at, at + PIECE_BYTES));
    // Nothing is read until `_read` is called again.
    return false;
  }

  override _read(size: number): void {
    // oxlint-disable-next-line no-underscore-dangle -- Node gives the method its name.
    setImmediate(() => this.destroyed || super._read(size));
  }
}

/**
 * Connects to an agent. A direct connection is returned while it is being established; one through a relay when it is established. Rejects
 * if the relay does not connect, or the signal aborts first.
 */
export async function connectToAgent({ host, port, relay }: AgentAddress, signal?: AbortSignal): Promise<Socket> {
  return relay === undefined ? new AgentConnection().connect({ host, port }) : connectThrough(relay, host, port, signal);
}

let relayed = 0;

async function connectThrough(relay: string, host: string, port: number, signal?: AbortSignal): Promise<Socket> {
  if (relayed >= RELAYED_MAX) throw new Error(`there are ${RELAYED_MAX} connections to agents through the relay`);
  relayed += 1;
  const socket = new AgentConnection().connect({ path: relay });
  socket.once('close', () => (relayed -= 1));
  try {
    const { version, connect, replyBytes, granted } = SOCKS;
    socket.write(Buffer.from([version, connect, port >> 8, port & 0xff, ...ipaddr.IPv4.parse(host).octets, 0]));
    const late = timeoutSignal(RELAY_MS);
    const reply = await firstBytes(socket, replyBytes, signal === undefined ? late : AbortSignal.any([signal, late]));
    if (reply[1] !== granted) throw new Error('the relay does not connect to the agent');
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

async function firstBytes(socket: Socket, count: number, signal: AbortSignal): Promise<Buffer> {
  for (;;) {
    const bytes = socket.read(count) as Buffer | null;
    if (bytes?.length === count) return bytes;
    if (bytes !== null || socket.readableEnded) throw new Error('the relay closed the connection');
    await once(socket, 'readable', { signal });
  }
}
