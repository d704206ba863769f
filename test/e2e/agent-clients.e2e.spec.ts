import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';

import { ClientFactory } from '@a2a-js/sdk/client';
import OpenAI from 'openai';

import { FrameworkAgent, frameworkEnvironment } from '../support/framework-agent.ts';
import { GitServer } from '../support/git-server.ts';
import { pypiAnswers, PythonEnvironment } from '../support/python-environment.ts';
import { StartedService } from '../support/started-service.ts';

/**
 * Agents from repositories whose `mooring.json` names their protocol, called by chats and by the protocols' own clients. The tests that use
 * Python need PyPI. If it does not answer, they report that and pass.
 */

const TIMEOUT_MS = 600_000;
/** The address of a model, which these agents do not ask. */
const NO_MODEL = 'http://127.0.0.1:1';
const a2a = ['a2a-sdk[http-server]>=1,<2', 'uvicorn'];
const programs = resolve(import.meta.dirname, '../support/agent-clients');
const program = (name: string) => readFileSync(join(programs, name), 'utf8');

const repositories = {
  a2a: {
    'mooring.json': JSON.stringify({ protocol: 'a2a', health_path: '/.well-known/agent-card.json' }),
    'requirements.txt': a2a.join('\n'),
    'main.py': program('a2a_agent.py'),
  },
  openai: {
    'mooring.json': JSON.stringify({ protocol: 'openai' }),
    'package.json': JSON.stringify({ name: 'parrot', private: true, scripts: { start: 'node server.js' } }),
    'server.js': program('openai-agent.js'),
  },
};

let python: PythonEnvironment;
let isReached: boolean;
let service: StartedService;
let git: GitServer;

beforeAll(async () => {
  isReached = await pypiAnswers();
  if (isReached) python = await PythonEnvironment.make(...a2a, 'openai');
  else console.warn('PyPI does not answer, so agents and clients in Python were not tried.');
  git = await GitServer.start();
  const { host, port } = await freeAddress();
  const address = { HOST: host, PORT: String(port), MOORING_BASE_URL: `http://${host}:${port}` };
  service = await StartedService.start({
    runtime: 'local',
    environment: { ...frameworkEnvironment, ...address, MOORING_ALLOW_PRIVATE_SOURCES: git.host },
  });
});
afterAll(async () => {
  await service?.dispose();
  await git?.close();
  await python?.remove();
});

/** Returns a free port of a loopback address that nothing else uses, so that nothing takes the port before the service has it. */
async function freeAddress(): Promise<{ host: string; port: number }> {
  const host = ['127', ...Array.from({ length: 3 }, () => randomInt(1, 255))].join('.');
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return { host, port };
}

function deploy(name: keyof typeof repositories): Promise<FrameworkAgent> {
  git.commit(name, repositories[name]);
  return FrameworkAgent.deploy(service, NO_MODEL, { repo_url: git.url(name) }, TIMEOUT_MS);
}

/** Opens the agent to anybody, in a new container, and returns its address. */
async function open(agent: FrameworkAgent): Promise<string> {
  const { status } = await service.call('PATCH', `/api/v1/agents/${agent.id}`, { public: true });
  expect(status).toBe(200);
  await agent.stopAndStart(TIMEOUT_MS);
  const url = `${service.firstRun.url}/a/${agent.id}/`;
  expect((await service.call('GET', `/api/v1/agents/${agent.id}`)).body).toMatchObject({ public_url: url });
  return url;
}

describe('a repository whose mooring.json names A2A, with the SDK for Python', () => {
  let agent: FrameworkAgent;

  beforeAll(async () => {
    if (isReached) agent = await deploy('a2a');
  });

  async function chats(): Promise<void> {
    expect(await agent.says('hello')).toBe('you said hello');
    expect(await agent.says('ask')).toBe('which one?');
    expect(await agent.says('the red one')).toBe('you chose the red one');
    expect(await agent.says('count')).toBe('one two three');
  }

  it('answers chats, and goes on with a task that asked for input at the next message', async () => {
    if (isReached) await chats();
  });

  it('is called by A2A’s own clients at the public address in its card, and by chats as before', async () => {
    if (!isReached) return;
    const url = await open(agent);
    expect(JSON.parse(await python.output([join(programs, 'a2a_client.py'), url]))).toEqual({
      addresses: [url],
      plain: ['you said hello'],
      counted: ['one ', 'two ', 'three'],
      state: 'TASK_STATE_COMPLETED',
      question: ['which one?'],
      asking: 'TASK_STATE_INPUT_REQUIRED',
      chosen: ['you chose the blue one'],
      answered: 'TASK_STATE_COMPLETED',
      unstreamed: ['you said hello'],
    });
    expect(await saidToNode(url)).toBe('you said hello');
    await chats();
  });

  /** Returns the reply to "hello" that the SDK for Node gets. */
  async function saidToNode(url: string): Promise<string> {
    const client = await new ClientFactory().createFromUrl(url);
    const part = { content: { $case: 'text' as const, value: 'hello' }, metadata: undefined, filename: '', mediaType: 'text/plain' };
    const about = { contextId: '', taskId: '', metadata: undefined, extensions: [], referenceTaskIds: [] };
    const message = { messageId: 'm1', role: 1, parts: [part], ...about };
    const reply = await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined });
    const [first] = 'parts' in reply ? reply.parts : [];
    return first?.content?.$case === 'text' ? first.content.value : '';
  }
});

describe('a repository whose mooring.json names OpenAI', () => {
  it('answers chats with the whole conversation, and is called by OpenAI’s own clients at its public address', async () => {
    const agent = await deploy('openai');
    expect(await agent.says('hello')).toBe('1: hello');
    const url = await open(agent);
    expect(await agent.says('again')).toBe('3: again');

    const client = new OpenAI({ baseURL: `${url}v1`, apiKey: 'none', maxRetries: 0 });
    const hello = { model: 'parrot', messages: [{ role: 'user' as const, content: 'hello' }] };
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['parrot']);
    expect((await client.chat.completions.create(hello)).choices[0]?.message.content).toBe('1: hello');
    const pieces: string[] = [];
    for await (const { choices } of await client.chat.completions.create({ ...hello, stream: true })) {
      const piece = choices[0]?.delta.content;
      if (typeof piece === 'string') pieces.push(piece);
      // The agent sends the rest after this request alone, so a stream that is held back never ends.
      if (pieces.length === 1) await fetch(`${url}next`);
    }
    expect(pieces).toEqual(['1: ', 'hello']);
    if (!isReached) return;
    expect(JSON.parse(await python.output([join(programs, 'openai_client.py'), url]))).toEqual({
      models: ['parrot'],
      completion: '1: hello',
      streamed: ['1: ', 'hello'],
    });
  });
});
