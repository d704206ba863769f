import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { constants, setPriority } from 'node:os';

import { hostileBodies, hostileFor } from '../../test/support/hostile-bodies.ts';
import { routesWithBodies, type RouteWithBody } from '../../test/support/routes.ts';

/** What the benchmark tells this program: whom to attack, with whose credentials (null: a stranger), and with how many bodies at once. */
export interface Attack {
  url: string;
  credentials: (string | null)[];
  bodies: number;
}

/** What it answers when it is told to stop. */
export interface Sent {
  bodies: number;
  answers: Record<string, number>;
}

type Telling = { attack: Attack } | { stop: true };

/** The bodies, each with a connection of its own, go from route to route until the end; each route gets all of them at once. */
class Attackers {
  readonly #connections: Agent;
  readonly #sent: Sent = { bodies: 0, answers: {} };
  #isOver = false;

  constructor(private readonly attack: Attack) {
    this.#connections = new Agent({ keepAlive: true, maxSockets: attack.bodies });
  }

  async start(): Promise<void> {
    const routes = routesWithBodies();
    const fields = [...new Set(routes.flatMap((route) => route.fields))];
    const bodies = [...hostileBodies, ...fields.flatMap(hostileFor)].slice(0, this.attack.bodies).map(([, body]) => Buffer.from(body));
    await Promise.all(bodies.map((body, n) => this.#goOn(body, routes, n)));
    this.#connections.destroy();
  }

  stop(): Sent {
    this.#isOver = true;
    return this.#sent;
  }

  async #goOn(body: Buffer, routes: RouteWithBody[], n: number): Promise<void> {
    const { credentials } = this.attack;
    for (let round = 0; !this.#isOver; round++) {
      for (const route of routes) {
        if (this.#isOver) return;
        const status = await this.#send(route, body, credentials[(n + round) % credentials.length] ?? null);
        this.#sent.bodies += 1;
        this.#sent.answers[status] = (this.#sent.answers[status] ?? 0) + 1;
      }
    }
  }

  /** The status; `no answer` where the connection was cut. */
  #send({ method, url }: RouteWithBody, body: Buffer, credential: string | null): Promise<number | 'no answer'> {
    const headers = { 'content-type': 'application/json', 'content-length': body.length };
    // A session that is over signs nobody out.
    const borne = url === '/api/auth/logout' && credential !== null ? 'ms_over' : credential;
    return new Promise((resolve) => {
      const asked = request(`${this.attack.url}${url}`, {
        method,
        headers: borne === null ? headers : { ...headers, authorization: `Bearer ${borne}` },
        agent: this.#connections,
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

// It stands for machines of others, so it takes no processor time that the service wants.
setPriority(constants.priority.PRIORITY_LOW);
process.once('disconnect', () => process.exit(0));
const [{ attack }] = (await once(process, 'message')) as [Extract<Telling, { attack: Attack }>];
const attackers = new Attackers(attack);
process.once('message', () => process.send?.(attackers.stop()));
await attackers.start();
