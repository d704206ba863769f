import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Webhook } from 'standardwebhooks';

import { pause } from '../../src/kernel/async/pause.ts';
import type { ServiceResponse, AnyBody, StartedService } from './started-service.ts';
import { until } from './until.ts';

const AGENTS = 3;
/** The share of events whose first delivery the receiver answers with an error. */
const FAILING = 0.1;
/** The time between two changes of an agent, in ms: each failed delivery holds up the agent's later events for a second. */
const CHANGE_EVERY_MS = 100;
/** The longest time in which nothing more arrives, in ms, before the test gives up. */
const STALLED_AFTER_MS = 90_000;

interface Item {
  event_id: string;
  agent_id: string | null;
  stream: string;
}

/** Changes to the agents of an account of its own, and a receiver, failing now and then, to which a subscription sends their events. */
export class SubscribedChanges {
  readonly received: { headers: IncomingHttpHeaders; body: string }[] = [];
  /** The ids of the events that the receiver took, in the order of their first arrival. */
  readonly taken = new Set<string>();
  readonly agentIds: string[] = [];
  private verified = 0;
  private secret = '';
  private session = '';
  private readonly refused = new Set<string>();
  private readonly ending = new AbortController();
  private work: Promise<void>[] = [];
  private before = 0;
  private readonly receiver: Server;

  private constructor(private readonly service: StartedService) {
    this.receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        this.received.push({ headers: request.headers, body });
        response.writeHead(this.takes(body) ? 204 : 500).end();
      });
    });
  }

  static async open(service: StartedService): Promise<SubscribedChanges> {
    const changes = new SubscribedChanges(service);
    await new Promise<void>((resolve) => changes.receiver.listen(0, '127.0.0.1', resolve));
    await changes.signIn();
    for (let n = 0; n < AGENTS; n += 1) {
      const agent = { name: `agent ${n}`, image: 'docker', image_name: 'nginx:1', auto_deploy: false };
      const { status, body } = await changes.call('POST', '/api/v1/provision', agent);
      expect(status).toBe(201);
      changes.agentIds.push(body.agent_id as string);
    }
    const url = `http://127.0.0.1:${(changes.receiver.address() as AddressInfo).port}/events`;
    const created = await changes.call('POST', '/api/v1/subscriptions', { url });
    expect(created.status).toBe(201);
    changes.secret = created.body.secret as string;
    return changes;
  }

  begin(): void {
    this.work = this.agentIds.map((agentId) => this.change(agentId));
  }

  beforeKill(): void {
    this.before = this.taken.size;
  }

  async goesOn(): Promise<void> {
    await until('events arrive again', () => (this.taken.size > this.before ? true : undefined));
    this.verifyReceived();
  }

  async stop(): Promise<void> {
    this.ending.abort();
    await Promise.all(this.work);
  }

  /** Waits until all events of the account have arrived, and returns them in their order. */
  async arrived(): Promise<Item[]> {
    const items = await this.happened();
    const missing = () => items.filter(({ event_id: id }) => !this.taken.has(id));
    while (missing().length > 0) {
      const before = missing().length;
      const what = `one of these events arrives: ${JSON.stringify(missing())}`;
      await until(what, () => missing().length < before || undefined, { timeoutMs: STALLED_AFTER_MS });
    }
    this.verifyReceived();
    return items;
  }

  async close(): Promise<void> {
    this.ending.abort();
    this.receiver.closeAllConnections();
    await new Promise((resolve) => this.receiver.close(resolve));
  }

  private takes(body: string): boolean {
    const { event_id: id } = JSON.parse(body) as Item;
    const fails = !this.taken.has(id) && !this.refused.has(id) && Math.random() < FAILING;
    if (fails) this.refused.add(id);
    else this.taken.add(id);
    return !fails;
  }

  /** Opens an account, with seats for its agents, and signs in to it. */
  private async signIn(): Promise<void> {
    const { email, password } = this.service.firstRun;
    const login = async (credentials: object) =>
      `Bearer ${(await this.service.call('POST', '/api/auth/login', credentials)).body.session_token}`;
    const admin = { authorization: await login({ email, password }) };
    const owner = { email: 'subscriber@example.com', password };
    const opened = await this.service.call('POST', '/api/admin/accounts', { ...owner, name: 'Subscriber', role: 'member' }, admin);
    expect(opened.status).toBe(201);
    const plan = { plan: 'team', seats: AGENTS, payment_method: true };
    expect((await this.service.call('PUT', `/api/admin/accounts/${opened.body.account_id}/plan`, plan, admin)).status).toBe(200);
    this.session = await login(owner);
  }

  private call<Body = AnyBody>(method: string, path: string, body?: unknown): Promise<ServiceResponse<Body>> {
    return this.service.call<Body>(method, path, body, { authorization: this.session });
  }

  /** Changes one agent again and again, until the end. */
  private async change(agentId: string): Promise<void> {
    for (let n = 0; !this.ending.signal.aborted; n += 1) {
      await this.call('PATCH', `/api/v1/agents/${agentId}`, { name: `name ${n}` }).catch(() => null);
      await pause(CHANGE_EVERY_MS);
    }
  }

  /** Returns the events of the account since it subscribed, without those of the subscription itself. */
  private async happened(): Promise<Item[]> {
    const items: Item[] = [];
    let path: string | undefined = '/api/v1/audit?limit=200';
    while (path !== undefined) {
      const page: ServiceResponse<Item[]> = await this.call('GET', path);
      items.push(...page.body);
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    const first = items.findIndex(({ stream }) => stream.startsWith('subscription-'));
    return items.slice(first).filter(({ stream }) => !stream.startsWith('subscription-'));
  }

  /** Verifies what arrived since the last time, soon enough: a signature that is older than five minutes counts as replayed. */
  private verifyReceived(): void {
    for (; this.verified < this.received.length; this.verified += 1) {
      const { body, headers } = this.received[this.verified] as (typeof this.received)[number];
      expect(() => new Webhook(this.secret).verify(body, headers as Record<string, string>)).not.toThrow();
    }
  }
}
