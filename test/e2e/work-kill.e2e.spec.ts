import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { pause } from '../../src/kernel/async/pause.ts';
import { processesOf } from '../support/framework-agent.ts';
import { killable, Kills } from '../support/kills.ts';
import { type AnyBody, StartedService } from '../support/started-service.ts';
import { SubscribedChanges } from '../support/subscribed-changes.ts';
import { until } from '../support/until.ts';
import { type Addressed, WebhookStream } from '../support/webhook-stream.ts';

/** Kills a service on the local runtime during its work: replies, a deployment's script, and streams of messages and of events. */

/** The number of kills during the streams. */
const STREAM_KILLS = Number(process.env.STREAM_KILLS ?? 3);
/** The time for the streams, in ms. */
const STREAMS_MS = 240_000 + STREAM_KILLS * 20_000;
/** The webhooks that one sender may send in a minute, less the chats: few enough that some are refused. */
const BUDGET = 200;

/** The template of each protocol, with the start of the agent's program and the server that it then is. */
const templates = {
  'langgraph-test': ['langgraph', 'process.env.MOORING_VOLUME', 'langgraph.mjs'],
  'a2a-10-test': ['a2a', '"1.0"', 'a2a.mjs'],
  'a2a-03-test': ['a2a', '"0.3"', 'a2a.mjs'],
} as const;
type TemplateId = keyof typeof templates;

let folder: string;
let service: StartedService;
let kills: Kills;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mooring-templates-'));
  for (const [id, [protocol, argument, program]] of Object.entries(templates)) {
    await mkdir(join(folder, id));
    const source = { kind: 'program', language: 'node', start: ['node', 'agent.mjs'] };
    const template = { id, name: id, description: id, source, health: { tcp: true }, protocol: { name: protocol } };
    await writeFile(join(folder, id, 'template.json'), JSON.stringify(template));
    const server = new URL(`../support/protocol-agents/${program}`, import.meta.url).href;
    await writeFile(join(folder, id, 'agent.mjs'), `process.argv[2] = ${argument};\nawait import(${JSON.stringify(server)});\n`);
  }
  const environment = { MOORING_TEMPLATES_DIR: folder, MOORING_MESSAGE_BUDGET: String(BUDGET), MOORING_ALLOW_PRIVATE_TARGETS: '127.0.0.1' };
  service = await StartedService.start({ ...(await killable()), runtime: 'local', environment });
  kills = new Kills(service);
});

afterAll(async () => {
  await service?.dispose();
  process.stdout.write(`in the middle of work: ${kills?.count} kills\n`);
  await rm(folder, { recursive: true, force: true });
});

/** One conversation with an agent. */
class Conversation {
  private id: string | undefined;

  private constructor(private readonly agentId: string) {}

  static async open(templateId: TemplateId): Promise<Conversation> {
    const made = await service.call('POST', '/api/agents', { name: templateId, templateId, idleTtlSeconds: 0 }, { prefer: 'wait=60' });
    expect(made.body).toMatchObject({ status: 'active' });
    return new Conversation(made.body.agent_id as string);
  }

  async says(message: string) {
    const answer = await service.call('POST', `/api/agents/${this.agentId}/chat`, { message, conversation_id: this.id });
    this.id ??= answer.body.conversation_id as string;
    return answer;
  }

  /** Sends a message at which the agent waits, and returns the answer's promise once the turn has begun. */
  async waits(message: string): Promise<{ answer: Promise<{ status: number; body: { code?: string } } | null> }> {
    const answer = this.says(message).catch(() => null);
    await until('the turn has begun', async () => ((await this.turns()).some(([, text]) => text === message) ? true : undefined));
    return { answer };
  }

  /** Lets the agent continue. */
  release(): Promise<string> {
    return this.run('touch "$MOORING_VOLUME/go"');
  }

  /** Returns the turns that the agent has begun: the thread and the text of each. */
  async turns(): Promise<[string, string][]> {
    const lines = (await this.run('cat "$MOORING_VOLUME/turns"')).trim().split('\n');
    return lines.map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]);
  }

  async thread(): Promise<{ role: string; text: string; status: string }[]> {
    return (await service.call('GET', `/api/agents/${this.agentId}/conversations/${this.id}/messages`)).body;
  }

  async restarted(): Promise<void> {
    const { body } = await service.call('POST', `/api/agents/${this.agentId}/restart`, undefined, { prefer: 'wait=60' });
    expect(body).toMatchObject({ status: 'active' });
  }

  /** Kills the agent's processes, and waits until it runs again. */
  async killed(): Promise<void> {
    const before = await processesOf(this.agentId);
    for (const pid of before) process.kill(pid, 'SIGKILL');
    await until('the agent runs again', async () => {
      const runs = (await processesOf(this.agentId)).some((pid) => !before.includes(pid));
      return runs && (await service.call('GET', `/api/agents/${this.agentId}`)).body.status === 'active' ? true : undefined;
    });
  }

  private async run(command: string): Promise<string> {
    return (await service.call('POST', `/api/agents/${this.agentId}/exec`, { command })).body.stdout as string;
  }
}

/** Expects these turns, all of them in one thread. */
async function expectTurns(conversation: Conversation, texts: string[]): Promise<void> {
  const turns = await conversation.turns();
  expect(turns.map(([, text]) => text)).toEqual(texts);
  expect(new Set(turns.map(([thread]) => thread)).size).toBe(1);
}

/** A deployment whose custom script waits at its first run. */
class ScriptedDeployment {
  private constructor(private readonly agent: string) {}

  static async open(): Promise<ScriptedDeployment> {
    const made = await service.call('POST', '/api/agents', { name: 'scripted', templateId: 'hello' }, { prefer: 'wait=60' });
    expect(made.status).toBe(201);
    const agent = `/api/v1/agents/${made.body.id as string}`;
    const content =
      'echo $$ >> "$MOORING_VOLUME/pids"; if [ $(wc -l < "$MOORING_VOLUME/pids") -lt 2 ]; then sleep 600 & echo $! >> "$MOORING_VOLUME/pids"; wait; fi; echo over';
    expect((await service.call('POST', `${agent}/files`, { files: [{ path: 'slow.sh', content }] })).status).toBe(201);
    return new ScriptedDeployment(agent);
  }

  /** Returns the ids of the script's two processes once they run. */
  async begin(): Promise<number[]> {
    expect((await service.call('POST', `${this.agent}/deploy`)).status).toBe(202);
    return until('the script runs', async () => {
      const pids = await pidsOf(service.dataDir);
      return pids.length >= 2 ? pids : undefined;
    });
  }

  /** Waits until the deployment has ended, and returns the agent. */
  ended(): Promise<AnyBody> {
    const ended = async () => {
      const { body } = await service.call('GET', this.agent);
      return body.status === 'deploying' ? undefined : body;
    };
    return until('the deployment has ended', ended);
  }

  async record(): Promise<{ status: string; build_log: string } | undefined> {
    return (await service.call<{ status: string; build_log: string }[]>('GET', `${this.agent}/deployments`)).body[0];
  }
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Returns the process ids that the script has written to the volume of the only agent with such a file. */
async function pidsOf(dataDir: string): Promise<number[]> {
  const notes = (await readdir(dataDir, { recursive: true })).filter((path) => path.endsWith('/pids'));
  const texts = await Promise.all(notes.map((path) => readFile(join(dataDir, path), 'utf8')));
  return texts.join('').split('\n').filter(Boolean).map(Number);
}

describe('at a kill of the service', () => {
  /** The conversations in which the agent waits at the kill. */
  const conversations = new Map<TemplateId, Conversation>();
  let script: ScriptedDeployment;
  let firstRun: number[];
  let ended: Promise<AnyBody>;

  beforeAll(async () => {
    script = await ScriptedDeployment.open();
    const waiting = async (templateId: TemplateId) => {
      const conversation = await Conversation.open(templateId);
      conversations.set(templateId, conversation);
      expect((await conversation.says('first')).status).toBe(200);
      return conversation.waits('wait');
    };
    const answers = await Promise.all((Object.keys(templates) as TemplateId[]).map(waiting));
    firstRun = await script.begin();
    await kills.now(async () => {
      await Promise.all(answers.map(({ answer }) => answer));
      expect(firstRun.filter(isAlive)).toHaveLength(2);
    });
    // Its timeout starts now, not at the start of the test.
    ended = script.ended();
    ended.catch(() => undefined);
  });

  it('a deployment with a script runs it anew in a new container, and nothing of the old one is left', async () => {
    expect(await ended).toMatchObject({ status: 'active' });
    // A killed process keeps its id until its parent, by now the init process, has reaped it.
    await until('its processes are gone', () => (firstRun.some(isAlive) ? undefined : true));
    expect(await pidsOf(service.dataDir)).toHaveLength(3);
    const record = await script.record();
    expect(record).toMatchObject({ status: 'success' });
    expect(record?.build_log.match(/Running the custom script/g)).toHaveLength(2);
  });

  it.each([
    ['langgraph-test', ['first', 'wait', 'third'], /^3: first, wait, third$/],
    ['a2a-10-test', ['first', 'wait', 'third'], /^3: first, wait, third \(3 ids\)$/],
    // An agent of this version recognizes a repeated message only by its id.
    ['a2a-03-test', ['first', 'wait', 'wait', 'third'], /^4: first, wait, wait, third \(3 ids\)$/],
  ] as const)('the thread of an agent goes on after a kill in the middle of a reply: %s', async (templateId, turns, last) => {
    const conversation = conversations.get(templateId) as Conversation;
    await conversation.release();
    await until('the message is answered', async () => ((await conversation.thread()).length === 4 ? true : undefined));
    expect((await conversation.says('third')).body.response).toMatch(last);
    await expectTurns(conversation, [...turns]);
    expect((await conversation.thread()).map(({ role, status }) => [role, status])).toEqual(
      Array.from({ length: 3 }, () => [
        ['user', 'delivered'],
        ['agent', 'delivered'],
      ]).flat(),
    );
  });
});

describe('the thread of an agent', () => {
  it.each(Object.keys(templates) as TemplateId[])(
    'continues after a restart of the agent, which does not get the interrupted message a second time: %s',
    async (templateId) => {
      const conversation = await Conversation.open(templateId);
      expect((await conversation.says('first')).status).toBe(200);
      await conversation.restarted();
      expect((await conversation.says('second')).status).toBe(200);
      const { answer } = await conversation.waits('wait');
      await conversation.killed();
      expect(await answer).toMatchObject({ status: 502, body: { code: 'agent_failed' } });
      expect((await conversation.says('third')).status).toBe(200);
      await expectTurns(conversation, ['first', 'second', 'wait', 'third']);
    },
  );
});

describe('over kills of the service at random moments', () => {
  let webhooks: WebhookStream;
  let changes: SubscribedChanges;

  beforeAll(async () => {
    webhooks = await WebhookStream.open(service);
    changes = await SubscribedChanges.open(service);
    const streams = [webhooks, changes];
    for (const stream of streams) stream.begin();
    for (let kill = 0; kill < STREAM_KILLS; kill += 1) {
      for (const stream of streams) stream.beforeKill();
      await pause(Math.random() * 1_500);
      await kills.now();
      await Promise.all(streams.map((stream) => stream.goesOn()));
    }
    await changes.stop();
  }, STREAMS_MS);

  afterAll(async () => {
    webhooks?.abandon();
    await changes?.close();
  });

  it(
    'all events that are sent to a subscription arrive, signed, and in order for each agent',
    async () => {
      const items = await changes.arrived();
      const expected = items.map(({ event_id: id }) => id);
      const agentOf = new Map(items.map(({ event_id, agent_id }) => [event_id, agent_id]));
      for (const agentId of changes.agentIds) {
        const own = (id: string) => agentOf.get(id) === agentId;
        expect([...changes.taken].filter(own)).toEqual(expected.filter(own));
      }
      process.stdout.write(`${expected.length} events arrived by ${changes.received.length} requests\n`);
    },
    STREAMS_MS,
  );

  it(
    'webhooks and chats are delivered at least once and in order if they were accepted, and never if they were refused',
    async () => {
      await webhooks.end();
      for (const agent of webhooks.agents) await check(agent);
    },
    STREAMS_MS,
  );
});

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
