import { once } from 'node:events';
import { open, type FileHandle } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { basename, dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { connectionRefused, validateTarget } from '../dial-target.ts';
import { DIAL_MS, Dials } from '../dials.ts';
import type { DialTarget } from '../runtime.ts';
import { expectState } from './container-states.ts';
import type { LocalContainer } from './local-container.ts';

/** The longest path of a socket that every system accepts, in bytes. */
const PATH_BYTES_MAX = 103;

/** Connects to ports and sockets on which agents on this machine listen. */
export class LocalDials {
  private readonly dials = new Dials();

  /** Connects to a socket or a port of a running agent (see `ContainerRuntime.dial`). */
  async dial(container: LocalContainer, to: DialTarget, signal: AbortSignal): Promise<Duplex> {
    validateTarget(to);
    return this.dials.add(container.handle, async () => {
      signal.throwIfAborted();
      await expectState(container, ['running']);
      const spec = await container.spec();
      const accepted = (socket: Socket) => connected(socket, to, signal);
      if ('port' in to) return accepted(connect({ host: '127.0.0.1', port: await container.hostPort(spec, to.port) }));
      return atPath(container.hostPath(spec, to.unix), accepted).catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'ENOENT' || error.code === 'ENOTDIR' ? connectionRefused(to, error) : error;
      });
    });
  }

  close(): void {
    this.dials.close();
  }
}

/** Connects to a socket by its path, or, if the path is too long for the kernel, by its name relative to its folder. */
async function atPath(path: string, accepted: (socket: Socket) => Promise<Socket>): Promise<Socket> {
  if (Buffer.byteLength(path) <= PATH_BYTES_MAX) return accepted(connect({ path }));
  let folder: FileHandle | null = null;
  try {
    folder = await open(dirname(path));
    return await accepted(connect({ path: join('/proc/self/fd', String(folder.fd), basename(path)) }));
  } finally {
    await folder?.close();
  }
}

async function connected(socket: Socket, to: DialTarget, signal: AbortSignal): Promise<Socket> {
  // An error closes the socket, which is how its reader learns that the connection ended, so the error needs no other handling.
  socket.on('error', () => undefined);
  try {
    await once(socket, 'connect', { signal: AbortSignal.any([signal, timeoutSignal(DIAL_MS)]) });
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    throw connectionRefused(to, error);
  }
}
