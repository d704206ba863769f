import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { processesOf } from '../support/framework-agent.ts';
import { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';

/** Agents that keep their threads themselves, while the service is killed, or they are, in the middle of a reply. */

/** The template of each protocol, with the start of the agent's program and the server that it then is. */
const templates = {
  'langgraph-test': ['langgraph', 'process.env.MOORING_VOLUME', 'langgraph.mjs'],
  'a2a-10-test': ['a2a', '"1.0"', 'a2a.mjs'],
  'a2a-03-test': ['a2a', '"0.3"', 'a2a.mjs'],
} as const;
type TemplateId = keyof typeof templates;

let folder: string;
let service: StartedService;

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
  service = await StartedService.start({ runtime: 'local', environment: { MOORING_TEMPLATES_DIR: folder } });
});

afterAll(async () => {
  await service?.dispose();
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

  /** Lets the agent go on. */
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

describe('the thread of an agent', () => {
  it.each([
    ['langgraph-test', ['first', 'wait', 'third'], /^3: first, wait, third$/],
    ['a2a-10-test', ['first', 'wait', 'third'], /^3: first, wait, third \(3 ids\)$/],
    // Nothing but the message's id tells an agent of this version that it got a message before.
    ['a2a-03-test', ['first', 'wait', 'wait', 'third'], /^4: first, wait, wait, third \(3 ids\)$/],
  ] as const)('goes on after a kill of the service in the middle of a reply: %s', async (templateId, turns, last) => {
    const conversation = await Conversation.open(templateId);
    expect((await conversation.says('first')).status).toBe(200);
    const { answer } = await conversation.waits('wait');
    await service.kill();
    await answer;
    await service.start();
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

  it.each(Object.keys(templates) as TemplateId[])(
    'goes on after a restart of the agent, which gets a message that it broke off no second time: %s',
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
