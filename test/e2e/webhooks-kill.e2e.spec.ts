import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { pause } from '../../src/platform/async/pause.ts';
import { type Answer, StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** Kills the service at random moments of a stream of webhooks and chats to an agent that is awake and one that is put to sleep. */

const KILLS = Number(process.env.WEBHOOK_KILLS ?? 3);
/** The webhooks that one sender may send in a minute, less the chats: few enough that some are refused. */
const BUDGET = 200;
/** The pause of a sender after each answer, ms. */
const SENDS_EVERY_MS = 30;
const TIMEOUT_MS = 120_000 + KILLS * 20_000;

/** One agent, a sender of its webhooks that waits for each answer, and a person who chats with it. */
class Addressed {
  /** The ids of the accepted webhooks in the order in which they were accepted. */
  readonly accepted: string[] = [];
  readonly acceptedTexts: string[] = [];
  readonly refusedTexts: string[] = [];
  /** The ids of the messages in the order in which the agent first got them. */
  readonly heard: string[] = [];
  /** The ids of the chats that were answered. */
  readonly chats: string[] = [];
  private number = 0;
  private token = '';
  private file: string | null = null;

  constructor(
    readonly agentId: string,
    readonly service: StartedService,
  ) {}

  async send(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.number += 1;
      const text = `webhook ${this.number} `;
      this.token ||= await this.service
        .call('GET', `/api/webhooks/${this.agentId}/token`)
        .then(({ body }) => body.token as string)
        .catch(() => '');
      const answer = await fetch(`${this.service.firstRun.url}/api/webhooks/${this.agentId}?token=${this.token}`, {
        method: 'POST',
        headers: { 'x-github-delivery': `${this.agentId} ${this.number}` },
        body: text,
      })
        .then(async (response) => ({ status: response.status, message_id: ((await response.json()) as { message_id: string }).message_id }))
        .catch(() => null);
      if (answer?.status === 202) {
        this.accepted.push(answer.message_id);
        this.acceptedTexts.push(text);
      } else if (answer?.status === 429) {
        this.refusedTexts.push(text);
      }
      await pause(SENDS_EVERY_MS);
    }
  }

  async chat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const answer = await this.service.call('POST', `/api/agents/${this.agentId}/chat`, { message: 'hello' }).catch(() => null);
      if (answer?.status === 200) this.chats.push(answer.body.message_id as string);
      await pause(1_000);
    }
  }

  async sleepNowAndThen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.service.call('POST', `/api/agents/${this.agentId}/sleep`).catch(() => null);
      await pause(200 + Math.random() * 800);
    }
  }

  /** Reads what the agent has written down: the ids of the latest messages, each once. */
  async readHeard(): Promise<void> {
    this.file ??= await fileOf(this.service.dataDir, this.agentId);
    if (this.file === null) return;
    const { answers } = JSON.parse(await readFile(this.file, 'utf8')) as { answers: [string, string][] };
    const known = new Set(this.heard);
    this.heard.push(...answers.map(([id]) => id).filter((id) => !known.has(id)));
  }

  /** Reads that often enough, since the agent remembers only some messages. */
  async listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.readHeard();
      await pause(200);
    }
  }

  async waiting(): Promise<number> {
    const { body } = await this.service.call('GET', `/api/agents/${this.agentId}/deliveries?status=pending&limit=200`);
    return (body as unknown[]).length;
  }

  async thread(): Promise<{ id: string; role: string; text: string; status: string }[]> {
    const { body: conversations } = await this.service.call('GET', `/api/agents/${this.agentId}/conversations?limit=200`);
    const { id } = (conversations as { id: string; channel: string }[]).find(({ channel }) => channel === 'webhook') ?? { id: '' };
    const messages = [];
    let path: string | undefined = `/api/agents/${this.agentId}/conversations/${id}/messages?limit=200`;
    while (path !== undefined) {
      const page: Answer = await this.service.call('GET', path);
      messages.unshift(...page.body);
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    return messages;
  }
}

/** Returns the file in which the agent counts its messages, or null before its first message. */
async function fileOf(dataDir: string, agentId: string): Promise<string | null> {
  const all = await readdir(dataDir, { recursive: true }).catch(() => []);
  const found = all.find((path) => path.includes(agentId) && path.endsWith('/counter.json'));
  return found === undefined ? null : join(dataDir, found);
}

describe('webhooks and chats to agents of a service that is killed again and again', () => {
  let service: StartedService;
  let agents: Addressed[];

  beforeAll(async () => {
    service = await StartedService.start({ runtime: 'local', environment: { MOORING_MESSAGE_BUDGET: String(BUDGET) } });
    const made = async (name: string) => {
      const answer = await service.call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
      expect(answer.body).toMatchObject({ status: 'active' });
      return new Addressed(answer.body.agent_id as string, service);
    };
    agents = [await made('awake'), await made('asleep')];
  }, TIMEOUT_MS);

  afterAll(() => service?.dispose());

  it(
    'are delivered at least once and in order if they were accepted, and never if they were refused',
    async () => {
      const ending = new AbortController();
      const over = new AbortController();
      const listening = agents.map((agent) => agent.listen(over.signal));
      const work = agents.flatMap((agent) => [agent.send(ending.signal), agent.chat(ending.signal)]);
      work.push((agents[1] as Addressed).sleepNowAndThen(ending.signal));
      for (let kill = 0; kill < KILLS; kill += 1) {
        const before = agents.map(({ accepted }) => accepted.length);
        await pause(Math.random() * 1_500);
        await service.kill();
        await service.start();
        await until('the service takes webhooks or refuses them', async () =>
          agents.every(({ accepted, refusedTexts }, n) => accepted.length > (before[n] ?? 0) || refusedTexts.length > 0) ? true : undefined,
        );
      }
      await until('one webhook was refused', async () => (agents.some(({ refusedTexts }) => refusedTexts.length > 0) ? true : undefined));
      ending.abort();
      await Promise.all(work);
      for (const agent of agents) {
        await until('nothing waits any more', async () => ((await agent.waiting()) === 0 ? true : undefined));
      }
      over.abort();
      await Promise.all(listening);
      for (const agent of agents) {
        await agent.readHeard();
        await check(agent);
      }
    },
    TIMEOUT_MS,
  );

  async function check(agent: Addressed): Promise<void> {
    const { accepted, acceptedTexts, refusedTexts, heard, chats } = agent;
    expect(new Set(accepted).size).toBe(accepted.length);
    const wanted = new Set(accepted);
    expect(heard.filter((id) => wanted.has(id))).toEqual(accepted);
    const known = new Set(heard);
    expect(chats.filter((id) => !known.has(id))).toEqual([]);
    const asked = (await agent.thread()).filter(({ role }) => role === 'user');
    expect(asked.filter(({ status }) => status !== 'delivered')).toEqual([]);
    const texts = asked.map(({ text }) => text);
    const ofAccepted = new Set(acceptedTexts);
    expect(texts.filter((text) => ofAccepted.has(text))).toEqual(acceptedTexts);
    const refused = new Set(refusedTexts);
    expect(texts.filter((text) => refused.has(text))).toEqual([]);
    process.stdout.write(`${accepted.length} webhooks accepted, ${refusedTexts.length} refused, ${chats.length} chats answered\n`);
  }
});
