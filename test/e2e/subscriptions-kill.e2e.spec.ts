import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Webhook } from 'standardwebhooks';

import { pause } from '../../src/platform/async/pause.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** Kills the service at random moments while it sends events to a receiver that fails now and then. */

const KILLS = Number(process.env.SUBSCRIPTION_KILLS ?? 3);
const AGENTS = 3;
/** The share of events whose first delivery the receiver answers with an error. */
const FAILING = 0.1;
/** The time between two changes of an agent, ms: each failed delivery holds up the agent's later events for a second. */
const CHANGE_EVERY_MS = 100;
/** The longest time in which nothing more arrives, ms, before the test gives up. */
const STALLED_AFTER_MS = 90_000;
const TIMEOUT_MS = 120_000 + KILLS * 20_000;

interface Item {
  event_id: string;
  agent_id: string | null;
  stream: string;
}

describe('events that are sent to a subscription by a service that is killed again and again', () => {
  let service: StartedService;
  let receiver: Server;
  let secret: string;
  const received: { headers: IncomingHttpHeaders; body: string }[] = [];
  let verified = 0;
  /** The ids of the events that the receiver took, in the order of their first arrival. */
  const taken = new Set<string>();
  const agentIds: string[] = [];
  const refused = new Set<string>();

  beforeAll(async () => {
    receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        received.push({ headers: request.headers, body });
        const { event_id: id } = JSON.parse(body) as Item;
        const fails = !taken.has(id) && !refused.has(id) && Math.random() < FAILING;
        if (fails) refused.add(id);
        else taken.add(id);
        response.writeHead(fails ? 500 : 204).end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    service = await StartedService.start({ runtime: 'local', environment: { MOORING_ALLOW_PRIVATE_TARGETS: '127.0.0.1' } });
    for (let n = 0; n < AGENTS; n += 1) {
      const agent = { name: `agent ${n}`, image: 'docker', image_name: 'nginx:1', auto_deploy: false };
      const { status, body } = await service.call('POST', '/api/v1/provision', agent);
      expect(status).toBe(201);
      agentIds.push(body.agent_id as string);
    }
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/events`;
    const created = await service.call('POST', '/api/v1/subscriptions', { url });
    expect(created.status).toBe(201);
    secret = created.body.secret as string;
  }, TIMEOUT_MS);

  afterAll(async () => {
    await service?.dispose();
    receiver?.closeAllConnections();
    await new Promise((resolve) => receiver?.close(resolve));
  });

  /** Changes one agent again and again, until the signal aborts. */
  async function change(agentId: string, signal: AbortSignal): Promise<void> {
    for (let n = 0; !signal.aborted; n += 1) {
      await service.call('PATCH', `/api/v1/agents/${agentId}`, { name: `name ${n}` }).catch(() => null);
      await pause(CHANGE_EVERY_MS);
    }
  }

  /** Returns the events of the account since it subscribed, without those of the subscription itself. */
  async function happened(): Promise<Item[]> {
    const items: Item[] = [];
    let path: string | undefined = '/api/v1/audit?limit=200';
    while (path !== undefined) {
      const page: { headers: Headers; body: Item[] } = await service.call<Item[]>('GET', path);
      items.push(...page.body);
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    const first = items.findIndex(({ stream }) => stream.startsWith('subscription-'));
    return items.slice(first).filter(({ stream }) => !stream.startsWith('subscription-'));
  }

  /** Verifies what arrived since the last time, soon enough: a signature that is older than five minutes counts as replayed. */
  function verifyReceived(): void {
    for (; verified < received.length; verified += 1) {
      const { body, headers } = received[verified] as (typeof received)[number];
      expect(() => new Webhook(secret).verify(body, headers as Record<string, string>)).not.toThrow();
    }
  }

  it(
    'all arrive, signed, and in order for each agent',
    async () => {
      const ending = new AbortController();
      const work = agentIds.map((agentId) => change(agentId, ending.signal));
      for (let kill = 0; kill < KILLS; kill += 1) {
        const before = taken.size;
        await pause(Math.random() * 1_500);
        await service.kill();
        await service.start();
        await until('events arrive again', () => (taken.size > before ? true : undefined));
        verifyReceived();
      }
      ending.abort();
      await Promise.all(work);
      const items = await happened();
      const expected = items.map(({ event_id: id }) => id);
      const missing = () => items.filter(({ event_id: id }) => !taken.has(id));
      while (missing().length > 0) {
        const before = missing().length;
        const what = `one of these events arrives: ${JSON.stringify(missing())}`;
        await until(what, () => missing().length < before || undefined, { timeoutMs: STALLED_AFTER_MS });
      }
      const agentOf = new Map(items.map(({ event_id, agent_id }) => [event_id, agent_id]));
      for (const agentId of agentIds) {
        const own = (id: string) => agentOf.get(id) === agentId;
        expect([...taken].filter(own)).toEqual(expected.filter(own));
      }
      verifyReceived();
      process.stdout.write(`${expected.length} events arrived by ${received.length} requests over ${KILLS} kills\n`);
    },
    TIMEOUT_MS,
  );
});
