import type { IncomingMessage, ServerResponse } from 'node:http';

/** Leaves chosen requests of a server unanswered, so that a test can act while one waits. */
export class HeldRequests {
  private path: RegExp | null = null;
  private came = () => {};
  private readonly waiting = new Set<ServerResponse>();

  /** Holds all requests for a path like this from now on. The promise resolves when the first one came. */
  hold(path: RegExp): Promise<void> {
    this.path = path;
    return new Promise((resolve) => (this.came = resolve));
  }

  /** Breaks the connections of the requests that wait, and holds no more. */
  release(): void {
    this.path = null;
    for (const response of this.waiting) response.destroy();
    this.waiting.clear();
  }

  /** Returns true if the request is held, so that nobody may answer it. */
  take({ url = '' }: IncomingMessage, response: ServerResponse): boolean {
    if (this.path?.test(url) !== true) return false;
    this.waiting.add(response);
    response.once('close', () => this.waiting.delete(response));
    this.came();
    return true;
  }
}
