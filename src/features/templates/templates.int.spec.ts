import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { protocolFor } from '../../agent-protocol/protocols.ts';
import { AgentErrorResponse, type AgentMessage } from '../../agent-protocol/protocol.ts';
import { Templates, templatesFolder } from './templates.ts';
import { endpointAt } from '../../../test/support/endpoint.ts';
import { unboundedMemory } from '../../../test/support/exchange-memory.ts';
import { until } from '../../../test/support/until.ts';

const templates = Templates.read(templatesFolder);
const started: ChildProcess[] = [];
let volume: string;

beforeEach(() => {
  volume = mkdtempSync(join(tmpdir(), 'mooring-volume-'));
});
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  rmSync(volume, { recursive: true, force: true });
});

interface Agent {
  child: ChildProcess;
  port: number;
  output: () => string;
}

/** Runs the template's program as a runtime does, and waits until it says that it is ready. */
async function run(id: string, environment: Record<string, string> = {}): Promise<Agent> {
  const template = templates.get(id);
  if (template?.source.kind !== 'program') throw new Error(`${id} is no program`);
  const child = spawn(process.execPath, template.source.start.slice(1), {
    cwd: template.source.directory,
    env: { ...template.env, MOORING_VOLUME: volume, MOORING_AGENT_NAME: 'Ada', HOST: '127.0.0.1', PORT: '0', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  let output = '';
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', () => reject(new Error(`it ended: ${output}`)));
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        const line = output.split('\n').find((text) => text.includes('"message":"ready'));
        if (line !== undefined && output.includes('\n')) resolve((JSON.parse(line) as { port: number }).port);
      });
  });
  return { child, port, output: () => output };
}

async function say(agent: Agent, given: Partial<AgentMessage>): Promise<string> {
  const message = { id: crypto.randomUUID(), channel: 'chat' as const, conversationId: 'c1', text: '', ...given };
  const exchange = {
    endpoint: endpointAt(agent),
    timeoutMs: 10_000,
    signal: new AbortController().signal,
    memory: unboundedMemory,
  };
  const inquiry = {
    ...exchange,
    messageId: message.id,
    conversationId: message.conversationId,
    publicPath: '/a/agent',
    protocol: { name: 'mooring' as const },
  };
  const deliver = await protocolFor('mooring').prepare(inquiry);
  return (await deliver({ ...inquiry, message, history: [] })).response;
}

describe('the template hello', () => {
  it('is healthy', async () => {
    const { port } = await run('hello');
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
  });

  it('greets, and counts the messages that it received', async () => {
    const agent = await run('hello');
    expect(await say(agent, { text: 'good morning' })).toBe('Hello! I am Ada. You wrote: good morning I have been asked once.');
    expect(await say(agent, { channel: 'webhook', payload: { a: 1 } })).toMatch(/A webhook called\. I have been asked 2 times\./);
    expect(await say(agent, { channel: 'attachment' })).toMatch(/Thank you for the file\. I have been asked 3 times\./);
  });

  it('counts each of many concurrent messages', async () => {
    const agent = await run('hello');
    const replies = await Promise.all(Array.from({ length: 20 }, () => say(agent, { text: 'x' })));
    const counts = replies.map((reply) => Number(/(\d+) times/.exec(reply)?.[1] ?? 1));
    expect(counts.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  });

  it('answers a repeated message as it did the first time, and does not count it', async () => {
    const agent = await run('hello');
    const first = await say(agent, { id: 'm1', text: 'x' });
    expect(await say(agent, { id: 'm1', text: 'x' })).toBe(first);
    expect(await say(agent, { id: 'm2', text: 'x' })).toMatch(/2 times/);
  });

  it('continues counting after it was killed', async () => {
    const agent = await run('hello');
    const first = await say(agent, { id: 'm1', text: 'x' });
    agent.child.kill('SIGKILL');
    await once(agent.child, 'exit');
    const next = await run('hello');
    expect(await say(next, { id: 'm1', text: 'x' })).toBe(first);
    expect(await say(next, { text: 'x' })).toMatch(/2 times/);
  });

  it('remembers about 200 ids, and survives a broken file', async () => {
    const answers = Array.from({ length: 200 }, (_, index) => [`old ${index}`, 'an answer']);
    writeFileSync(join(volume, 'counter.json'), JSON.stringify({ count: 500, answers }));
    const agent = await run('hello');
    expect(await say(agent, { id: 'old 0' })).toBe('an answer');
    expect(await say(agent, { id: 'new' })).toMatch(/501 times/);
    const kept = JSON.parse(readFileSync(join(volume, 'counter.json'), 'utf8')) as { answers: unknown[] };
    expect(kept.answers).toHaveLength(200);
    writeFileSync(join(volume, 'counter.json'), 'half of a fi');
    expect(await say(agent, { id: 'newer' })).toMatch(/asked once/);
  });

  it('logs a JSON line for each message, without its text', async () => {
    const agent = await run('hello');
    await say(agent, { id: 'm1', text: 'a private matter' });
    const lines = agent
      .output()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toContainEqual({
      level: 'info',
      message: 'answered a message',
      message_id: 'm1',
      channel: 'chat',
      conversation_id: 'c1',
    });
    expect(agent.output()).not.toContain('private matter');
  });

  it('refuses a body that is not a message', async () => {
    const { port } = await run('hello');
    const post = (path: string, body: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body });
    for (const body of ['', '{', '[]', 'null', '{"id":1}']) expect((await post('/messages', body)).status).toBe(400);
    expect((await post('/messages', ' '.repeat(5_000_000))).status).toBe(413);
    expect((await post('/other', '{}')).status).toBe(404);
    expect((await fetch(`http://127.0.0.1:${port}/messages`)).status).toBe(405);
  });

  it.each(['hello', 'assistant'])('exits on SIGTERM, as %s', async (id) => {
    const { child } = await run(id);
    child.kill('SIGTERM');
    await once(child, 'exit');
    expect(child.exitCode).toBe(0);
  });
});

describe('the template assistant', () => {
  const KEY = 'sk-planted-canary-0123456789';
  let server: Server;
  let asked: { url?: string; authorization?: string; body: { model: string; messages: { role: string; content: string }[] } }[];
  let answer: (response: ServerResponse, question: string) => void;
  let environment: Record<string, string>;

  beforeEach(async () => {
    asked = [];
    answer = (response, question) => reply(response, `echo: ${question}`);
    server = createServer((request: IncomingMessage, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(chunks).toString()) as (typeof asked)[number]['body'];
        asked.push({ url: request.url, authorization: request.headers.authorization, body });
        answer(response, body.messages.at(-1)?.content ?? '');
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const { port } = server.address() as AddressInfo;
    environment = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1/`, OPENAI_API_KEY: KEY };
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const reply = (response: ServerResponse, content: string) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content }, finish_reason: 'stop' }] }));
  };

  const failure = async (agent: Agent, message: Partial<AgentMessage>): Promise<AgentErrorResponse> => {
    const error = await say(agent, message).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AgentErrorResponse);
    return error as AgentErrorResponse;
  };

  it('explains what to set if it has no model', async () => {
    const agent = await run('assistant');
    expect(await say(agent, { text: 'hi' })).toMatch(/OPENAI_API_KEY.*OPENAI_BASE_URL.*OPENAI_MODEL/);
    expect(agent.output()).toContain('not connected to a model');
  });

  it('sends the conversation so far to the endpoint', async () => {
    const agent = await run('assistant', { ...environment, OPENAI_MODEL: 'm-1', SYSTEM_PROMPT: 'Be brief.' });
    expect(await say(agent, { text: 'one' })).toBe('echo: one');
    expect(await say(agent, { text: 'two' })).toBe('echo: two');
    expect(await say(agent, { text: 'other', conversationId: 'c2' })).toBe('echo: other');
    expect(asked[1]).toEqual({
      url: '/v1/chat/completions',
      authorization: `Bearer ${KEY}`,
      body: {
        model: 'm-1',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'one' },
          { role: 'assistant', content: 'echo: one' },
          { role: 'user', content: 'two' },
        ],
        stream: false,
      },
    });
    expect(asked[2]?.body.messages).toHaveLength(2);
  });

  it('keeps conversations over a kill, and answers a repeated message without asking the endpoint', async () => {
    const agent = await run('assistant', environment);
    await say(agent, { id: 'm1', text: 'one' });
    agent.child.kill('SIGKILL');
    await once(agent.child, 'exit');
    const next = await run('assistant', environment);
    expect(await say(next, { id: 'm1', text: 'one' })).toBe('echo: one');
    expect(asked).toHaveLength(1);
    await say(next, { id: 'm2', text: 'two' });
    expect(asked[1]?.body.messages.map(({ content }) => content)).toEqual(['one', 'echo: one', 'two']);
  });

  it('shows the model a bounded part of a conversation', async () => {
    const agent = await run('assistant', { ...environment, MAX_HISTORY: '4' });
    for (const text of ['1', '2', '3', '4', '5']) await say(agent, { text });
    expect(asked.at(-1)?.body.messages.map(({ content }) => content)).toEqual(['echo: 3', '4', 'echo: 4', '5']);
  });

  it('handles the messages of a conversation one after the other', async () => {
    const waiting: (() => void)[] = [];
    answer = (response, question) => waiting.push(() => reply(response, `echo: ${question}`));
    const agent = await run('assistant', environment);
    const first = say(agent, { text: 'first' });
    await until('the first was asked', () => (asked.length >= 1 ? true : undefined));
    const second = say(agent, { text: 'second' });
    const elsewhere = say(agent, { text: 'elsewhere', conversationId: 'c2' });
    await until('the other conversation was asked', () => (asked.length >= 2 ? true : undefined));
    expect(asked[1]?.body.messages).toEqual([{ role: 'user', content: 'elsewhere' }]);
    waiting.splice(0).forEach((go) => go());
    expect([await first, await elsewhere]).toEqual(['echo: first', 'echo: elsewhere']);
    await until('the second was asked', () => (waiting.length >= 1 ? true : undefined));
    waiting.splice(0).forEach((go) => go());
    expect(await second).toBe('echo: second');
    expect(asked[2]?.body.messages.map(({ content }) => content)).toEqual(['first', 'echo: first', 'second']);
  });

  it.each([
    [
      'an error',
      (response: ServerResponse) => response.writeHead(401).end(`{"error":{"message":"Incorrect API key: ${KEY}"}}`),
      /401: Incorrect API key: •••/,
    ],
    ['garbage', (response: ServerResponse) => response.end('<html>'), /gave no reply/],
    ['an error behind 200', (response: ServerResponse) => response.end('{"error":{"message":"overloaded"}}'), /gave no reply: overloaded/],
    ['a redirect', (response: ServerResponse) => response.writeHead(302, { location: '/elsewhere' }).end(), /could not be reached/],
    ['too much', (response: ServerResponse) => response.end('x'.repeat(2_000_000)), /too large/],
    ['a broken connection', (response: ServerResponse) => response.destroy(), /could not be reached/],
    ['silence', () => undefined, /did not answer within 1 s/],
  ])('answers 502 to %s, and never shows the key', async (_, behaviour, text) => {
    answer = behaviour;
    const agent = await run('assistant', { ...environment, OPENAI_TIMEOUT: '1' });
    const error = await failure(agent, { text: 'hi' });
    expect(error).toMatchObject({ status: 502, retryable: true, message: expect.stringMatching(text) });
    expect(error.message + agent.output()).not.toContain(KEY);
    expect(asked).toHaveLength(1);
    expect(readdirSync(join(volume, 'threads'))).toEqual([]);
    answer = (response, question) => reply(response, `echo: ${question}`);
    expect(await say(agent, { text: 'again' })).toBe('echo: again');
    expect(asked.at(-1)?.body.messages).toEqual([{ role: 'user', content: 'again' }]);
  });

  it('reports that the endpoint can not be reached', async () => {
    const agent = await run('assistant', { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' });
    expect((await failure(agent, { text: 'hi' })).message).toMatch(/could not be reached/);
  });

  it('passes the body of a webhook to the model, and names files', async () => {
    const agent = await run('assistant', environment);
    await say(agent, { channel: 'webhook', payload: { action: 'opened' } });
    const attachments = [{ path: '/data/inbox/a.txt', name: 'a.txt', size: 3, contentType: 'text/plain' }];
    await say(agent, { channel: 'attachment', text: 'read this', attachments });
    expect(asked.map(({ body }) => body.messages.at(-1)?.content)).toEqual([
      '{"action":"opened"}',
      'read this\n\nAttached files:\n- /data/inbox/a.txt (3 bytes)',
    ]);
  });

  it('treats a conversation id as a name, never as a path', async () => {
    const agent = await run('assistant', environment);
    await say(agent, { conversationId: '../../escape', text: 'x' });
    expect(readdirSync(join(volume, 'threads'))).toEqual([expect.stringMatching(/^[0-9a-f]{64}\.json$/)]);
  });
});
