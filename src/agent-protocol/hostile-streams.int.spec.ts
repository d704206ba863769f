import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { endpointAt } from '../../test/support/endpoint.ts';
import { unboundedMemory } from '../../test/support/exchange-memory.ts';
import { answersOfAHostileAgent } from '../../test/support/hostile-agent.ts';
import { protocolFor } from './protocols.ts';
import { AgentBrokeConnection, AgentErrorResponse, ReplyTimeout, type Delivery } from './protocol.ts';
import type { ProtocolName } from './protocol-names.ts';

const STREAM = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
const json = (body: unknown) => {
  const text = JSON.stringify(body);
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};

/** Writes the text again and again for as long as the reader accepts it. */
function flood(socket: Socket, text: string): void {
  const piece = text.repeat(Math.ceil(65_536 / text.length));
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', more);
  more();
}

/** The pieces of text by which each protocol streams a word. */
const wordIn: Record<'openai' | 'langgraph' | 'a2a', string> = {
  openai: 'data: {"choices":[{"delta":{"content":"word "}}]}\n\n',
  langgraph: 'event: messages\ndata: [{"type":"ai","id":"1","content":"word "},{}]\n\n',
  a2a: 'data: {"result":{"artifactUpdate":{"taskId":"1","append":true,"artifact":{"artifactId":"a","parts":[{"text":"word "}]}}}}\n\n',
};

const noSuchMethod = { error: { code: -32_601, message: 'there is no such method' } };
const card = {
  capabilities: { streaming: true },
  supportedInterfaces: [{ url: '/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
};

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** Starts a server that calls `answer` with the path and the body of each request, once the request is complete. */
async function serving(answer: (socket: Socket, path: string, body: string) => void): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let asked = '';
    socket.on('data', (chunk) => {
      asked += chunk.toString('latin1');
      const end = asked.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(asked)?.[1] ?? 0);
      if (end >= 0 && asked.length >= end + 4 + length) answer(socket, asked.split(' ')[1] ?? '', asked.slice(end + 4));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Starts an agent that answers the questions before the message well, and then calls `answer`. */
function agent(answer: (socket: Socket) => void): Promise<number> {
  return serving((socket, path, body) => {
    if (path.includes('agent-card')) socket.end(json(card));
    else if (path === '/threads/search') socket.end(json([]));
    else if (body.includes('ListTasks')) socket.end(json(noSuchMethod));
    else answer(socket);
  });
}

async function failure(name: ProtocolName, port: number, timeoutMs = 20_000): Promise<unknown> {
  const exchange = {
    endpoint: endpointAt({ port }),
    timeoutMs,
    signal: new AbortController().signal,
    memory: unboundedMemory,
    protocol: { name },
  };
  const message = { id: 'm', channel: 'chat' as const, conversationId: 'c', text: 'hello' };
  const delivery: Delivery = { ...exchange, message, history: [], onText: () => undefined };
  try {
    const deliver = await protocolFor(name).prepare({ ...exchange, messageId: 'm', conversationId: 'c', publicPath: '/a/agent' });
    throw new Error(`it replied ${(await deliver(delivery)).response.slice(0, 100)}`);
  } catch (error) {
    return error;
  }
}

describe.each(['openai', 'langgraph', 'a2a'] as const)('a hostile agent that speaks %s', (name) => {
  const known = [AgentErrorResponse, AgentBrokeConnection, ReplyTimeout];
  const isKnown = (error: unknown) => known.some((kind) => error instanceof kind);

  it.each(Object.keys(answersOfAHostileAgent))(
    'and answers every request with %s leaves an error in bounded time and memory',
    async (kind) => {
      const port = await serving((socket) => answersOfAHostileAgent[kind as keyof typeof answersOfAHostileAgent](socket));
      const memory = process.memoryUsage.rss();
      const isSlow = kind === 'silence' || kind.startsWith('a drip');
      expect(isKnown(await failure(name, port, isSlow ? 300 : 20_000))).toBe(true);
      expect(process.memoryUsage.rss() - memory).toBeLessThan(150 * 1024 * 1024);
    },
  );

  it('and streams its text without end is cut off at the largest reply', async () => {
    const port = await agent((socket) => (socket.write(STREAM), flood(socket, wordIn[name].replace('word', 'word'.repeat(50)))));
    expect(await failure(name, port)).toMatchObject({ name: 'AgentErrorResponse', message: expect.stringContaining('1 MiB') });
  });

  it.each([': still here\n\n', '\n', 'data: \n', `: ${'x'.repeat(1_000)}\n\n`])('and streams %j without end is cut off', async (line) => {
    const port = await agent((socket) => (socket.write(STREAM), flood(socket, line)));
    const error = await failure(name, port, 60_000);
    expect(error).toMatchObject({ name: 'AgentBrokeConnection', message: expect.stringMatching(/64 MiB|pieces|lines|event of more/) });
  });

  it('and streams one event without end is cut off', async () => {
    const port = await agent((socket) => (socket.write(`${STREAM}data: `), flood(socket, 'x')));
    expect(await failure(name, port)).toMatchObject({ name: 'AgentBrokeConnection', message: expect.stringContaining('event of more') });
  });

  it.each(['nothing', '{', 'null', '[]', '7', '{"result":{"task":7}}', '{"result":{"message":{"parts":"x"}},"choices":7}'])(
    'and streams %s has not replied, or said nothing',
    async (data) => {
      const port = await agent((socket) => void socket.end(`${STREAM}event: updates\ndata: ${data}\n\n`));
      const error = (await failure(name, port, 2_000)) as Error;
      expect(isKnown(error) || error.message === 'it replied ').toBe(true);
    },
  );

  it('and breaks off its stream has not replied', async () => {
    const port = await agent((socket) => socket.write(STREAM + wordIn[name], () => socket.resetAndDestroy()));
    expect(await failure(name, port)).toBeInstanceOf(AgentBrokeConnection);
  });

  it('and streams words endlessly is ended in time', async () => {
    const port = await agent((socket) => {
      socket.write(STREAM);
      const timer = setInterval(() => socket.write(wordIn[name]), 20);
      socket.on('close', () => clearInterval(timer));
    });
    expect(await failure(name, port, 500)).toBeInstanceOf(ReplyTimeout);
  });
});

describe('the card of an A2A agent', () => {
  const asked = async (answer: unknown): Promise<string[]> => {
    const paths: string[] = [];
    const port = await serving((socket, path) => {
      paths.push(path);
      socket.end(json(path.includes('agent-card') ? answer : { result: { message: { parts: [{ text: 'x' }] } } }));
    });
    await failure('a2a', port);
    return [...new Set(paths.slice(1))];
  };

  it.each([
    ['http://169.254.169.254/latest/meta-data', '/latest/meta-data'],
    ['https://user:password@example.com:1/rpc?x=1', '/rpc?x=1'],
    ['//example.com/rpc', '/rpc'],
    ['rpc', '/rpc'],
  ])('never leads away from the agent: %s', async (url, path) => {
    expect(await asked({ ...card, supportedInterfaces: [{ ...card.supportedInterfaces[0], url }] })).toEqual([path]);
  });

  it.each([{}, [], null, 7, { supportedInterfaces: [{ url: '/', protocolBinding: 'GRPC', protocolVersion: '1.0' }] }])(
    'that offers no JSON-RPC is an error: %j',
    async (answer) => {
      expect(await asked(answer)).toEqual([]);
    },
  );

  it('leads to version 1.0 if it offers both', async () => {
    const both = {
      ...card,
      supportedInterfaces: [{ url: '/old', protocolBinding: 'JSONRPC', protocolVersion: '0.3' }, ...card.supportedInterfaces],
    };
    expect(await asked(both)).toEqual(['/rpc']);
  });
});

describe('a task of an A2A agent', () => {
  const taskIn = (state: string, text?: string) => ({
    id: 't1',
    contextId: 'c',
    status: { state },
    history: [{ role: 'ROLE_USER', messageId: 'm' }],
    artifacts: text === undefined ? [] : [{ artifactId: 'a', parts: [{ text }] }],
  });
  const working = taskIn('TASK_STATE_WORKING');

  /** Starts an agent that answers by method, and that is done when its task was asked for three times. */
  async function slowAgent(answers: Record<string, unknown>): Promise<{ port: number; methods: string[] }> {
    const methods: string[] = [];
    const port = await serving((socket, path, body) => {
      if (path.includes('agent-card')) return void socket.end(json(card));
      const { method } = JSON.parse(body) as { method: string };
      methods.push(method);
      const isDone = methods.filter((each) => each === 'GetTask').length === 3;
      return void socket.end(json(answers[method] ?? { result: isDone ? taskIn('TASK_STATE_COMPLETED', 'done at last') : working }));
    });
    return { port, methods };
  }

  it('that is not done immediately is polled until it is done', async () => {
    const { port, methods } = await slowAgent({ ListTasks: noSuchMethod, SendStreamingMessage: { result: { task: working } } });
    expect(await failure('a2a', port)).toMatchObject({ message: 'it replied done at last' });
    expect(methods).toEqual(['ListTasks', 'SendStreamingMessage', 'GetTask', 'GetTask', 'GetTask']);
  });

  it('that answers the message already is waited for, and the message is not sent again', async () => {
    const { port, methods } = await slowAgent({ ListTasks: { result: { tasks: [working] } } });
    expect(await failure('a2a', port)).toMatchObject({ message: 'it replied done at last' });
    expect(methods).toEqual(['ListTasks', 'GetTask', 'GetTask', 'GetTask']);
  });

  it('that has answered the message and failed is started again', async () => {
    const answers = {
      ListTasks: { result: { tasks: [taskIn('TASK_STATE_FAILED')] } },
      SendStreamingMessage: { result: { task: working } },
    };
    const { port, methods } = await slowAgent(answers);
    expect(await failure('a2a', port)).toMatchObject({ message: 'it replied done at last' });
    expect(methods.slice(0, 2)).toEqual(['ListTasks', 'SendStreamingMessage']);
  });

  it('that is never done is ended in time', async () => {
    const port = await serving((socket, path) =>
      socket.end(json(path.includes('agent-card') ? card : { result: { task: working, ...working } })),
    );
    expect(await failure('a2a', port, 500)).toBeInstanceOf(ReplyTimeout);
  });
});
