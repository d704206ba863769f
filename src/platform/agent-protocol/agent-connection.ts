import { Socket } from 'node:net';

/** The size of the pieces in which what was read from an agent is parsed, in bytes. */
const PIECE_BYTES = 4 * 1024;

/**
 * A connection to an agent, which may send anything as fast as it can. Node reads up to 64 KiB at once, and as long as there is more; its HTTP
 * parser goes through all that it is given, even if the beginning ended the exchange. This connection passes on small pieces, none after it
 * was destroyed, and lets other work have its turn after each read.
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

/** Connects to an agent, for one exchange. */
export function connectToAgent({ host, port }: { host: string; port: number }): Socket {
  return new AgentConnection().connect({ host, port });
}
