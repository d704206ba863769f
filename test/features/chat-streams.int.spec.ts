import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { agentConnectionPool } from '../../src/agent-protocol/agent-connection-pool.ts';
import { OpenStreams } from '../../src/http/limits/open-streams.ts';
import type { Caller } from '../../src/kernel/context/caller.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { Templates } from '../../src/features/templates/index.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

/** Chats whose callers read the reply as it comes, with an agent that speaks the chat completions protocol. */

/** The streams that one account may have open by default. */
const STREAMS_OF_ACCOUNT = 200;

interface Asked {
  text: string;
  isStreamed: boolean;
  /** Says a piece of the reply. */
  push(text: string): void;
  end(): void;
  /** Answers with this status instead. */
  fail(status: number): void;
}

/** The requests that reached the agent and that no test has taken. */
const asked: Asked[] = [];

const model = createServer((request, response) => void take(request, response));

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { messages, stream } = JSON.parse(Buffer.concat(chunks).toString()) as { messages: { content: string }[]; stream: boolean };
  const all: string[] = [];
  const begin = () =>
    response.headersSent || response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
  asked.push({
    text: messages.at(-1)?.content ?? '',
    isStreamed: stream,
    push: (text) => {
      all.push(text);
      begin();
      if (stream) response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`);
    },
    end: () => {
      begin();
      response.end(stream ? 'data: [DONE]\n\n' : JSON.stringify({ choices: [{ message: { content: all.join('') } }] }));
    },
    fail: (status) => response.writeHead(status).end('{"error":"no model"}'),
  });
}

/** Returns the next request that reaches the agent. */
const nextAsked = () => until('the agent is asked', () => Promise.resolve(asked.shift()));

let talk: ChatFixture;
let hello: NonNullable<ReturnType<Templates['get']>>;

beforeAll(async () => {
  talk = await startChatFixture({});
  model.listen(0, '127.0.0.1');
  await once(model, 'listening');
  const templates = talk.server.app.get(Templates, { strict: false });
  hello = templates.get('hello') as typeof hello;
});
beforeEach(() => {
  const templates = talk.server.app.get(Templates, { strict: false });
  jest.spyOn(templates, 'get').mockReturnValue({ ...hello, protocol: { name: 'openai' } });
  const { port } = model.address() as AddressInfo;
  jest.spyOn(talk.runtime.inner, 'address').mockResolvedValue({ host: '127.0.0.1', port });
  agentConnectionPool.closeIdle();
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  await talk?.server.close();
  model.closeAllConnections();
  model.close();
});

interface Read {
  event: string;
  // oxlint-disable-next-line no-explicit-any -- tests look into events of every shape
  data: any;
}

/** A chat whose reply is streamed. */
class StreamedChat {
  private rest = '';

  private constructor(
    readonly response: Response,
    private readonly reader: ReadableStreamDefaultReader<Uint8Array>,
    private readonly caller: AbortController,
  ) {}

  static async send(message: string, { conversation, key }: { conversation?: string; key?: string } = {}): Promise<StreamedChat> {
    const caller = new AbortController();
    const headers = { authorization: 'Bearer mk_acme', 'content-type': 'application/json', accept: 'text/event-stream' };
    const response = await fetch(`${talk.server.url}/api/agents/${talk.agentId}/chat`, {
      method: 'POST',
      headers: key === undefined ? headers : { ...headers, 'idempotency-key': key },
      body: JSON.stringify({ message, conversation_id: conversation }),
      signal: caller.signal,
    });
    return new StreamedChat(response, (response.body as ReadableStream<Uint8Array>).getReader(), caller);
  }

  /** Returns the next event, or null at the end. */
  async next(): Promise<Read | null> {
    for (;;) {
      const end = this.rest.indexOf('\n\n');
      if (end >= 0) {
        const frame = this.rest.slice(0, end);
        this.rest = this.rest.slice(end + 2);
        const found = /^event: (.*)\ndata: (.*)$/s.exec(frame);
        if (found !== null) return { event: found[1] as string, data: JSON.parse(found[2] as string) };
        continue;
      }
      const { done, value } = await this.reader.read();
      if (done) return null;
      this.rest += Buffer.from(value).toString();
    }
  }

  async all(): Promise<Read[]> {
    const events: Read[] = [];
    for (let event = await this.next(); event !== null; event = await this.next()) events.push(event);
    return events;
  }

  leave(): void {
    this.caller.abort();
  }
}

const deltas = (events: Read[]) => events.flatMap(({ event, data }) => (event === 'delta' ? [data.text] : [])).join('');

describe('a chat whose caller accepts events', () => {
  it('gets the reply as it comes, then the whole of it, which is in the thread', async () => {
    const chat = await StreamedChat.send('hello');
    expect(chat.response.headers.get('content-type')).toContain('text/event-stream');
    expect(chat.response.headers.get('x-event-position')).not.toBeNull();
    const accepted = await chat.next();
    expect(accepted).toEqual({ event: 'accepted', data: { conversation_id: expect.any(String), message_id: expect.any(String) } });
    const agent = await nextAsked();
    expect(agent).toMatchObject({ text: 'hello', isStreamed: true });
    agent.push('one ');
    expect(await chat.next()).toEqual({ event: 'delta', data: { text: 'one ' } });
    agent.push('two');
    expect(await chat.next()).toEqual({ event: 'delta', data: { text: 'two' } });
    agent.end();
    expect(await chat.all()).toEqual([{ event: 'reply', data: { response: 'one two', ...accepted?.data } }]);
    expect((await talk.thread(accepted?.data.conversation_id)).map(({ text }) => text)).toEqual(['hello', 'one two']);
  });

  it('gets one piece from an agent that can’t stream', async () => {
    jest.restoreAllMocks();
    agentConnectionPool.closeIdle();
    const events = await (await StreamedChat.send('hello')).all();
    expect(events.map(({ event }) => event)).toEqual(['accepted', 'delta', 'reply']);
    expect(events[1]?.data.text).toBe(events[2]?.data.response);
  });

  it('gets a problem as the last event if there is no reply', async () => {
    const chat = await StreamedChat.send('hello');
    (await nextAsked()).fail(500);
    const [accepted, error, ...others] = await chat.all();
    const problem = {
      type: 'urn:mooring:problem:agent_failed',
      status: 502,
      code: 'agent_failed',
      detail: expect.stringMatching(/^POST \/v1\/chat\/completions on port \d+ answered 500: .*no model/),
    };
    expect(error).toMatchObject({
      event: 'error',
      data: { ...problem, message_id: accepted?.data.message_id, request_id: expect.any(String) },
    });
    expect(others).toEqual([]);
  });

  it('gets a problem as the response if the message is not accepted', async () => {
    const chat = await StreamedChat.send('hello', { conversation: '0190a7c2-6e0f-7c6b-9a51-0e6a3f1f8a11' });
    expect(chat.response.status).toBe(404);
    expect(chat.response.headers.get('content-type')).toContain('application/problem+json');
  });

  it('is refused, and writes nothing, if the account has too many streams open', async () => {
    const streams = talk.server.app.get(OpenStreams, { strict: false });
    const headOf = async () => (await talk.server.app.get(Database, { strict: false }).query('select max(position) from es_event'))[0];
    const before = await headOf();
    const leave: (() => void)[] = [];
    const open = { caller: { accountId: 'acme' } as Caller, isClosed: false, onClose: (listener: () => void) => void leave.push(listener) };
    try {
      for (let count = 0; count < STREAMS_OF_ACCOUNT; count += 1) streams.add(open);
      expect((await StreamedChat.send('one too many')).response.status).toBe(429);
    } finally {
      for (const listener of leave) listener();
    }
    expect(await headOf()).toEqual(before);
    expect(asked).toEqual([]);
  });

  it('may go away: the turn goes on, and the whole reply is in the thread', async () => {
    const chat = await StreamedChat.send('hello');
    const conversation_id = (await chat.next())?.data.conversation_id;
    const agent = await nextAsked();
    agent.push('one ');
    await chat.next();
    chat.leave();
    agent.push('two');
    agent.end();
    await until('the reply is in the thread', async () => ((await talk.thread(conversation_id)).length === 2 ? true : undefined));
    expect((await talk.thread(conversation_id)).at(-1)).toMatchObject({ text: 'one two', status: 'delivered' });
  });

  it('does not delay the turn by reading slowly, and gets the whole reply', async () => {
    const chat = await StreamedChat.send('hello');
    const conversation_id = (await chat.next())?.data.conversation_id;
    const agent = await nextAsked();
    const piece = 'x'.repeat(10_000);
    for (let said = 0; said < 60; said += 1) agent.push(piece);
    agent.end();
    await until('the reply is in the thread', async () => ((await talk.thread(conversation_id)).length === 2 ? true : undefined));
    const events = await chat.all();
    const reply = piece.repeat(60);
    expect(events.at(-1)?.data.response).toBe(reply);
    expect(reply.startsWith(deltas(events))).toBe(true);
  });
});

describe('a streamed chat with an Idempotency-Key', () => {
  it('lets a repeated request join the turn: it gets the parts from then on, and the same reply', async () => {
    const chat = await StreamedChat.send('say it once', { key: 'streamed' });
    const accepted = await chat.next();
    const agent = await nextAsked();
    agent.push('one ');
    await chat.next();
    const again = await StreamedChat.send('say it once', { key: 'streamed' });
    expect(await again.next()).toEqual(accepted);
    agent.push('two');
    expect(await again.next()).toEqual({ event: 'delta', data: { text: 'two' } });
    agent.end();
    const reply = { event: 'reply', data: { response: 'one two', ...accepted?.data } };
    expect([(await chat.all()).at(-1), (await again.all()).at(-1)]).toEqual([reply, reply]);
    const late = await StreamedChat.send('say it once', { key: 'streamed' });
    expect(await late.all()).toEqual([accepted, { event: 'delta', data: { text: 'one two' } }, reply]);
    expect((await talk.chatOnce('streamed', 'say it once')).json).toEqual(reply.data);
    expect(await talk.chatOnce('streamed', 'say something else')).toMatchObject({ status: 422 });
    expect(asked).toEqual([]);
  });
});
