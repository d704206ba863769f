import type { Duplex } from 'node:stream';
import type { ContainerHandle } from './container.ts';
import { RuntimeRefused } from './runtime.errors.ts';

/** The most connections into one container. It leaves streams for commands and files: a channel has 64. */
const DIALS_MAX = 40;
/** The longest wait for a connection, in ms. */
export const DIAL_MS = 10_000;

/** The open connections into containers. Each container has its own share. */
export class Dials {
  private readonly counts = new Map<ContainerHandle, number>();
  private readonly open = new Set<Duplex>();

  /** Opens another connection. Throws `RuntimeRefused` if the container has its maximum. */
  async add(handle: ContainerHandle, dial: () => Promise<Duplex>): Promise<Duplex> {
    if ((this.counts.get(handle) ?? 0) >= DIALS_MAX)
      throw new RuntimeRefused(`The container has as many connections as it may: ${DIALS_MAX}.`);
    this.adjust(handle, 1);
    try {
      const connection = await dial();
      this.open.add(connection);
      const end = () => {
        if (this.open.delete(connection)) this.adjust(handle, -1);
      };
      connection.once('close', end);
      if (connection.closed) end();
      return connection;
    } catch (error) {
      this.adjust(handle, -1);
      throw error;
    }
  }

  close(): void {
    for (const connection of this.open) connection.destroy();
  }

  private adjust(handle: ContainerHandle, more: number): void {
    const count = (this.counts.get(handle) ?? 0) + more;
    if (count === 0) this.counts.delete(handle);
    else this.counts.set(handle, count);
  }
}
