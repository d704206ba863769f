import type { IncomingMessage, ServerResponse } from 'node:http';

/** Leaves chosen requests of a server unanswered, so that a test can act while one waits. */
export class HeldRequests {
  private path: RegExp | null = null;
  private arrived = () => {};
  private readonly waiting = new Set<ServerResponse>();

  /** Holds all requests whose path matches from now on. The promise resolves when the first one has arrived. */
  hold(path: RegExp): Promise<void> {
    this.path = path;
    return new Promise((resolve) => (this.arrived = resolve));
  }

  /** Closes the connections of the waiting requests, and holds no further ones. */
  release(): void {
    this.path = null;
    for (const response of this.waiting) response.destroy();
    this.waiting.clear();
  }

  /** Returns whether the request is held, so that no handler may respond to it. */
  intercept({ url = '' }: IncomingMessage, response: ServerResponse): boolean {
    if (this.path?.test(url) !== true) return false;
    this.waiting.add(response);
    response.once('close', () => this.waiting.delete(response));
    this.arrived();
    return true;
  }
}
