import { once } from 'node:events';
import { Agent, request } from 'node:http';

import { hostileBodies, hostileFor } from '../../test/support/hostile-bodies.ts';
import { routesWithBodies, type RouteWithBody } from '../../test/support/routes.ts';

/**
 * The order from the benchmark to this program: the address, the credentials (null for an unauthenticated caller), and the number of
 * concurrent bodies.
 */
export interface Attack {
  url: string;
  credentials: (string | null)[];
  bodies: number;
}

/** The result that the program reports when it is stopped. */
export interface Sent {
  bodies: number;
  answers: Record<string, number>;
}

type Telling = { attack: Attack } | { stop: true };

/** Sends the bodies to one route after the other until the end, each on a connection of its own. Each route gets all of them concurrently. */
class Attackers {
  private readonly connections: Agent;
  private readonly sent: Sent = { bodies: 0, answers: {} };
  private isOver = false;

  constructor(private readonly attack: Attack) {
    this.connections = new Agent({ keepAlive: true, maxSockets: attack.bodies });
  }

  async start(): Promise<void> {
    const routes = routesWithBodies();
    const fields = [...new Set(routes.flatMap((route) => route.fields))];
    const bodies = [...hostileBodies, ...fields.flatMap(hostileFor)].slice(0, this.attack.bodies).map(([, body]) => Buffer.from(body));
    await Promise.all(bodies.map((body, n) => this.goOn(body, routes, n)));
    this.connections.destroy();
  }

  stop(): Sent {
    this.isOver = true;
    return this.sent;
  }

  private async goOn(body: Buffer, routes: RouteWithBody[], n: number): Promise<void> {
    const { credentials } = this.attack;
    for (let round = 0; !this.isOver; round++) {
      for (const route of routes) {
        if (this.isOver) return;
        const status = await this.send(route, body, credentials[(n + round) % credentials.length] ?? null);
        this.sent.bodies += 1;
        this.sent.answers[status] = (this.sent.answers[status] ?? 0) + 1;
      }
    }
  }

  /** Sends one body. Returns the status, or `no answer` if the connection was cut. */
  private send({ method, url }: RouteWithBody, body: Buffer, credential: string | null): Promise<number | 'no answer'> {
    const headers = { 'content-type': 'application/json', 'content-length': body.length };
    // The session is an ended one, so that no caller is signed out.
    const borne = url === '/api/auth/logout' && credential !== null ? 'ms_over' : credential;
    return new Promise((resolve) => {
      const asked = request(`${this.attack.url}${url}`, {
        method,
        headers: borne === null ? headers : { ...headers, authorization: `Bearer ${borne}` },
        agent: this.connections,
      });
      asked.on('response', (answer) => {
        answer.on('error', () => resolve('no answer'));
        answer.resume().on('end', () => resolve(answer.statusCode ?? 'no answer'));
      });
      asked.on('error', () => resolve('no answer'));
      asked.end(body);
    });
  }
}

process.once('disconnect', () => process.exit(0));
const [{ attack }] = (await once(process, 'message')) as [Extract<Telling, { attack: Attack }>];
const attackers = new Attackers(attack);
process.once('message', () => process.send?.(attackers.stop()));
await attackers.start();
