import { randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import type { ContainerHandle } from '../container.ts';
import { RuntimeUnavailable } from '../runtime.errors.ts';

/** The range is below the ports that systems use for outgoing connections, so that none takes the port before the agent listens on it. */
const RANGE = { from: 20_000, to: 32_767 };
const ATTEMPTS = 500;

/**
 * Chooses free loopback ports whose numbers are those of free displays, too. A chosen port stays reserved for its container, which may not
 * listen yet.
 */
export class Ports {
  private readonly given = new Map<ContainerHandle, number>();

  async choose(handle: ContainerHandle): Promise<number> {
    const taken = new Set([...this.given].filter(([owner]) => owner !== handle).map(([, port]) => port));
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const port = randomInt(RANGE.from, RANGE.to + 1);
      if (taken.has(port) || isDisplay(port) || !(await canListen(port))) continue;
      this.given.set(handle, port);
      return port;
    }
    throw new RuntimeUnavailable(new Error('no free port was found'));
  }

  release(handle: ContainerHandle): void {
    this.given.delete(handle);
  }
}

/** Returns whether a display with this number exists, or existed and its server was killed. */
const isDisplay = (number: number): boolean => existsSync(`/tmp/.X11-unix/X${number}`);

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
