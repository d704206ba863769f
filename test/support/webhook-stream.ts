import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { pause } from '../../src/kernel/async/pause.ts';
import type { ServiceResponse, StartedService } from './started-service.ts';
import { until } from './until.ts';

/** The pause of a sender after each response, in ms. */
const SENDS_EVERY_MS = 30;

/** One agent, a sender of its webhooks that waits for each response, and a person who chats with it. */
export class Addressed {
  /** The ids of the accepted webhooks in the order in which they were accepted. */
  readonly accepted: string[] = [];
  readonly acceptedTexts: string[] = [];
  readonly refusedTexts: string[] = [];
  /** The ids of the messages in the order in which the agent first received them. */
  readonly heard: string[] = [];
  /** The ids of the chats that were answered. */
  readonly chats: string[] = [];
  private number = 0;
  private token = '';
  private file: string | null = null;

  constructor(
    readonly agentId: string,
    readonly service: StartedService,
    private readonly hasToken: boolean,
  ) {}

  async send(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.number += 1;
      const text = `webhook ${this.number} `;
      if (this.hasToken)
        this.token ||= await this.service
          .call('GET', `/api/webhooks/${this.agentId}/token`)
          .then(({ body }) => body.token as string)
          .catch(() => '');
      const query = this.hasToken ? `?token=${this.token}` : '';
      const answer = await fetch(`${this.service.firstRun.url}/api/webhooks/${this.agentId}${query}`, {
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

  /** Reads the agent's own record: the ids of the latest messages, each once. */
  async readHeard(): Promise<void> {
    this.file ??= await fileOf(this.service.dataDir, this.agentId);
    if (this.file === null) return;
    const { answers } = JSON.parse(await readFile(this.file, 'utf8')) as { answers: [string, string][] };
    const known = new Set(this.heard);
    this.heard.push(...answers.map(([id]) => id).filter((id) => !known.has(id)));
  }

  /** Polls the agent's record often enough, since the agent remembers only some messages. */
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
      const page: ServiceResponse = await this.service.call('GET', path);
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

/**
 * Webhooks and chats to an agent that is awake and to one that is put to sleep now and then, and to one whose webhooks come without its
 * token.
 */
export class WebhookStream {
  private readonly ending = new AbortController();
  private readonly over = new AbortController();
  private listening: Promise<void>[] = [];
  private work: Promise<void>[] = [];
  /** The number of accepted webhooks of each agent at the last kill. */
  private before: number[] = [];

  private constructor(
    readonly awake: Addressed,
    readonly asleep: Addressed,
    readonly open: Addressed,
  ) {}

  static async open(service: StartedService): Promise<WebhookStream> {
    const made = async (name: string, hasToken = true) => {
      const answer = await service.call('POST', '/api/agents', { name, templateId: 'hello' }, { prefer: 'wait=60' });
      expect(answer.body).toMatchObject({ status: 'active' });
      return new Addressed(answer.body.agent_id as string, service, hasToken);
    };
    return new WebhookStream(await made('awake'), await made('asleep'), await made('open', false));
  }

  get agents(): Addressed[] {
    return [this.awake, this.asleep, this.open];
  }

  begin(): void {
    this.listening = this.agents.map((agent) => agent.listen(this.over.signal));
    this.work = this.agents.flatMap((agent) => [agent.send(this.ending.signal), agent.chat(this.ending.signal)]);
    this.work.push(this.asleep.sleepNowAndThen(this.ending.signal));
  }

  beforeKill(): void {
    this.before = this.agents.map(({ accepted }) => accepted.length);
  }

  async goesOn(): Promise<void> {
    const isTaken = ({ accepted, refusedTexts }: Addressed, n: number) =>
      accepted.length > (this.before[n] ?? 0) || refusedTexts.length > 0;
    await until('the service takes webhooks or refuses them', () => (this.agents.every(isTaken) ? true : undefined));
  }

  /** Ends the stream once a webhook was refused, and waits until all accepted ones have been delivered. */
  async end(): Promise<void> {
    await until('one webhook was refused', () => (this.agents.some(({ refusedTexts }) => refusedTexts.length > 0) ? true : undefined));
    this.ending.abort();
    await Promise.all(this.work);
    for (const agent of this.agents) await until('nothing waits any more', async () => ((await agent.waiting()) === 0 ? true : undefined));
    this.over.abort();
    await Promise.all(this.listening);
    for (const agent of this.agents) await agent.readHeard();
  }

  /** Ends everything that still runs, after a failure. */
  abandon(): void {
    this.ending.abort();
    this.over.abort();
  }
}
