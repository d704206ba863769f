import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { endpointAt } from '../../test/support/endpoint.ts';
import { unboundedMemory } from '../../test/support/exchange-memory.ts';
import { answersOfAHostileAgent, serveHostilely } from '../../test/support/hostile-agent.ts';
import { protocolFor } from './protocols.ts';
import { AgentErrorResponse, AgentBrokeConnection, AgentUnreachable, ReplyTimeout, type Delivery } from './protocol.ts';

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) {
    await new Promise((resolve) => server.close(resolve));
  }
});

async function listening(server: Server, port = 0): Promise<number> {
  servers.push(server);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

interface Seen {
  method?: string;
  url?: string;
  headers: IncomingMessage['headers'];
  body: unknown;
}

/** Starts an agent that responds to each message by `answer`; `seen` is what it received. */
async function agent(answer: (response: ServerResponse, request: IncomingMessage) => void): Promise<{ port: number; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    response.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body: JSON.parse(Buffer.concat(chunks).toString()) });
      answer(response, request);
    });
  });
  return { port: await listening(server), seen };
}

const says =
  (body: unknown, status = 200) =>
  (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

const delivery = (port: number, other: Partial<Delivery> = {}): Delivery => ({
  endpoint: endpointAt({ port }),
  message: { id: 'm1', channel: 'chat', conversationId: 'c1', text: 'hello' },
  history: [],
  memory: unboundedMemory,
  protocol: { name: 'mooring' },
  timeoutMs: 10_000,
  signal: new AbortController().signal,
  ...other,
});

async function deliver(request: Delivery): Promise<{ response: string }> {
  const { id: messageId, conversationId } = request.message;
  const hand = await protocolFor(request.protocol.name).prepare({ ...request, messageId, conversationId, publicPath: '/a/agent' });
  return hand(request);
}

/** Returns the error that a delivery throws. */
async function failure(request: Delivery): Promise<unknown> {
  return deliver(request).then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error,
  );
}

describe('the mooring protocol', () => {
  it('posts the message to /messages and returns the reply', async () => {
    const { port, seen } = await agent(says({ response: 'hi there' }));
    const message = {
      id: 'm1',
      channel: 'webhook' as const,
      conversationId: 'c1',
      text: '',
      payload: { a: [1] },
      contentType: 'application/json',
      headers: { 'x-github-event': 'push' },
      url: 'https://mooring.example/api/webhooks/1',
      attachments: [{ path: '/data/inbox/a.txt', name: 'a.txt', size: 3, contentType: 'text/plain' }],
    };
    expect(await deliver(delivery(port, { message }))).toEqual({ response: 'hi there' });
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/messages' });
    expect(seen[0]?.body).toEqual({
      id: 'm1',
      channel: 'webhook',
      conversation_id: 'c1',
      text: '',
      payload: { a: [1] },
      content_type: 'application/json',
      headers: { 'x-github-event': 'push' },
      url: 'https://mooring.example/api/webhooks/1',
      attachments: [{ path: '/data/inbox/a.txt', name: 'a.txt', size: 3, content_type: 'text/plain' }],
    });
    expect(Object.keys(seen[0]?.headers ?? {}).sort()).toEqual(
      ['accept', 'accept-encoding', 'connection', 'content-length', 'content-type', 'host'].sort(),
    );
  });

  it.each(['\0', 'a\u{1F600}', '\u00e9\u20ac\u{1F600}x'])('sends a long message of %j whole', async (characters) => {
    const { port, seen } = await agent(says({ response: 'read' }));
    const text = characters.repeat(Math.ceil(900_000 / Buffer.byteLength(characters)));
    const message = { id: 'm1', channel: 'chat' as const, conversationId: 'c1', text };
    expect(await deliver(delivery(port, { message }))).toEqual({ response: 'read' });
    expect((seen[0]?.body as { text?: string } | undefined)?.text === text).toBe(true);
  });

  it('treats an empty response as an empty reply', async () => {
    const { port } = await agent(says('', 202));
    expect(await deliver(delivery(port))).toEqual({ response: '' });
  });

  it('uses the path that the template names', async () => {
    const { port, seen } = await agent(says({ response: 'x' }));
    await deliver(delivery(port, { protocol: { name: 'mooring', path: '/inbox?v=1' } }));
    expect(seen[0]?.url).toBe('/inbox?v=1');
  });

  it('replaces what PostgreSQL would refuse', async () => {
    const { port } = await agent(says('{"response":"a\\u0000b\\ud800c\\ud83d\\ude00"}'));
    expect(await deliver(delivery(port))).toEqual({ response: 'a\uFFFDb\uFFFDc😀' });
  });

  it.each([
    ['no JSON', '<html>hello</html>', 200],
    ['another shape', '{"reply":"x"}', 200],
    ['no object', '17', 200],
    ['no text', '{"response":{"deep":1}}', 200],
    ['a very deep answer', '['.repeat(100_000), 200],
    ['a client error', '{"error":"bad message"}', 400],
  ])('reports that the agent answered %s, and that a retry is useless', async (_, body, status) => {
    const { port } = await agent(says(body, status));
    const error = await failure(delivery(port));
    expect(error).toBeInstanceOf(AgentErrorResponse);
    expect(error).toMatchObject({ status, retryable: false });
    expect((error as Error).message.length).toBeLessThan(400);
  });

  it.each([
    [500, '{"detail":"it broke"}', /it broke/],
    [503, 'draining\n\n  soon', /draining soon/],
    [429, '', /no text/],
    [502, '{"error":{"message":"model away"}}', /model away/],
  ])('reports that %i may be temporary', async (status, body, text) => {
    const { port } = await agent(says(body, status));
    const error = await failure(delivery(port));
    expect(error).toMatchObject({ status, retryable: true, message: expect.stringMatching(text) });
  });

  it('follows no redirect', async () => {
    const inner = await agent(says({ response: 'internal secret' }));
    for (const status of [301, 302, 307, 308]) {
      const outer = await agent((response) => {
        response.writeHead(status, { location: `http://127.0.0.1:${inner.port}/messages` });
        response.end();
      });
      expect(await failure(delivery(outer.port))).toMatchObject({ name: 'AgentErrorResponse', status, retryable: false });
    }
    expect(inner.seen).toEqual([]);
  });

  it('stops reading a reply that is too large', async () => {
    let sent = 0;
    const { port } = await agent((response) => {
      response.writeHead(200);
      const more = () => {
        while (!response.destroyed && sent < 100_000_000 && response.write(Buffer.alloc(65_536, 'x'))) sent += 65_536;
      };
      response.on('drain', more);
      more();
    });
    expect(await failure(delivery(port))).toMatchObject({ name: 'AgentErrorResponse', message: expect.stringContaining('1 MiB') });
    expect(sent).toBeLessThan(50_000_000);
  });

  it('accepts a reply of just under 1 MiB', async () => {
    const { port } = await agent(says({ response: 'x'.repeat(1_048_000) }));
    expect((await deliver(delivery(port))).response).toHaveLength(1_048_000);
  });

  it.each(['silence', 'a slow drip'])('fails at the timeout for %s', async (kind) => {
    let timer: NodeJS.Timeout | undefined;
    const { port } = await agent((response) => {
      if (kind === 'silence') return;
      response.writeHead(200);
      timer = setInterval(() => response.write(' '), 20);
    });
    const begun = performance.now();
    const error = await failure(delivery(port, { timeoutMs: 300 }));
    clearInterval(timer);
    expect(error).toBeInstanceOf(ReplyTimeout);
    expect(performance.now() - begun).toBeLessThan(30_000);
  });

  it('reports that nothing listens on the port', async () => {
    const server = createTcpServer();
    const port = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    servers.length = 0;
    const error = await failure(delivery(port));
    expect(error).toBeInstanceOf(AgentUnreachable);
    expect(error).toMatchObject({ retryable: true });
  });

  it.each(['before', 'within'])('reports that the connection broke %s the response', async (when) => {
    const { port } = await agent((response, request) => {
      if (when === 'within') response.write('{"response":"half');
      setImmediate(() => request.socket.destroy());
    });
    expect(await failure(delivery(port))).toMatchObject({ name: 'AgentBrokeConnection', retryable: false });
  });

  it('reports that the agent broke off only if it got the whole message', async () => {
    const port = await listening(
      createTcpServer((socket) => socket.on('error', () => undefined).once('data', () => socket.resetAndDestroy())),
    );
    const text = 'x'.repeat(20_000_000);
    expect(await failure(delivery(port, { message: { id: 'm1', channel: 'chat', conversationId: 'c1', text } }))).toBeInstanceOf(
      AgentUnreachable,
    );
  });

  const { silence, 'a drip of headers': headers, 'a drip of body': body, ...atOnce } = answersOfAHostileAgent;
  /** These are answers, though none of them can be used. */
  const answered = [
    'a body without end',
    'a redirect to a metadata address',
    'an error without end',
    'the length of a terabyte',
    'a reply that is nested deep',
    'a reply that is no text',
  ];

  it.each(Object.keys(atOnce))('ends a conversation with an agent that answers with %s', async (text) => {
    const port = await listening(createTcpServer((socket) => serveHostilely(socket)));
    const memory = process.memoryUsage.rss();
    const error = await failure(delivery(port, { message: { id: 'm1', channel: 'chat', conversationId: 'c1', text } }));
    expect(error).toBeInstanceOf(answered.includes(text) ? AgentErrorResponse : AgentBrokeConnection);
    // The status 500 allows a repeat, which a webhook gets.
    expect((error as AgentBrokeConnection).retryable).toBe(text === 'an error without end');
    expect(process.memoryUsage.rss() - memory).toBeLessThan(100 * 1024 * 1024);
  });

  it.each(Object.keys({ silence, headers, body }))('fails in time for an agent that answers with %s', async (kind) => {
    const port = await listening(createTcpServer((socket) => serveHostilely(socket)));
    const text = kind === 'silence' ? kind : `a drip of ${kind}`;
    expect(
      await failure(delivery(port, { timeoutMs: 300, message: { id: 'm1', channel: 'chat', conversationId: 'c1', text } })),
    ).toBeInstanceOf(ReplyTimeout);
  });

  it('stops when the signal aborts', async () => {
    const controller = new AbortController();
    const { port } = await agent(() => controller.abort(new Error('enough')));
    expect(await failure(delivery(port, { signal: controller.signal }))).toMatchObject({ message: 'enough' });
    expect(await failure(delivery(port, { signal: controller.signal }))).toMatchObject({ message: 'enough' });
  });
});

describe('the openai protocol', () => {
  const openai = (port: number, other: Partial<Delivery> = {}) => delivery(port, { protocol: { name: 'openai', model: 'm-1' }, ...other });
  const completion = (content: unknown) => says({ choices: [{ message: { role: 'assistant', content } }] });

  it('sends the thread and returns the reply', async () => {
    const { port, seen } = await agent(completion('fine'));
    const history = [
      { role: 'user' as const, text: 'one' },
      { role: 'assistant' as const, text: 'two' },
    ];
    expect(await deliver(openai(port, { history }))).toEqual({ response: 'fine' });
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/v1/chat/completions' });
    expect(seen[0]?.body).toEqual({
      model: 'm-1',
      messages: [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'two' },
        { role: 'user', content: 'hello' },
      ],
      user: 'c1',
      stream: false,
    });
  });

  it('puts payload and attachments into the text', async () => {
    const { port, seen } = await agent(completion([{ type: 'text', text: 'a' }, null, { type: 'text', text: 'b' }]));
    const attachments = [{ path: '/data/inbox/a.txt', name: 'a.txt', size: 3, contentType: 'text/plain' }];
    const message = { id: 'm', channel: 'webhook' as const, conversationId: 'c', text: 'look', payload: { a: 1 }, attachments };
    expect(await deliver(openai(port, { message }))).toEqual({ response: 'ab' });
    expect(seen[0]?.body).toMatchObject({
      messages: [{ content: 'look\n\n{"a":1}\n\nAttached files:\n- /data/inbox/a.txt (3 bytes)' }],
    });
  });

  it.each([{}, [], null, { choices: [] }, { choices: [null] }, { choices: 'x' }, { choices: [{ message: { content: null } }] }])(
    'refuses an answer without content: %j',
    async (body) => {
      const { port } = await agent(says(body));
      expect(await failure(openai(port))).toMatchObject({ name: 'AgentErrorResponse', status: 200, retryable: false });
    },
  );

  const streamed = (deltas: object[]) => (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const delta of deltas) response.write(`data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`);
    response.end('data: [DONE]\n\n');
  };
  const calls = [{ id: 'c1', type: 'function', function: { name: 'search', arguments: '{}' } }];

  it('takes a refusal for the reply, also in a stream', async () => {
    const whole = await agent(says({ choices: [{ message: { content: null, refusal: 'I can not help.' } }] }));
    expect(await deliver(openai(whole.port))).toEqual({ response: 'I can not help.' });
    const pieces = await agent(streamed([{ refusal: 'I can ' }, { content: null, refusal: 'not help.' }]));
    expect(await deliver(openai(pieces.port, { onText: () => undefined }))).toEqual({ response: 'I can not help.' });
  });

  it('says that nobody runs the tools that an answer calls in place of a reply, also in a stream', async () => {
    const refused = {
      name: 'AgentErrorResponse',
      status: 200,
      retryable: false,
      message: expect.stringContaining('has to run its tools itself'),
    };
    const whole = await agent(says({ choices: [{ message: { content: null, tool_calls: calls } }] }));
    expect(await failure(openai(whole.port))).toMatchObject(refused);
    const pieces = await agent(streamed([{ role: 'assistant', content: null }, { tool_calls: calls }]));
    expect(await failure(openai(pieces.port, { onText: () => undefined }))).toMatchObject(refused);
    const both = await agent(says({ choices: [{ message: { content: 'found', tool_calls: calls } }] }));
    expect(await deliver(openai(both.port))).toEqual({ response: 'found' });
  });

  it('finds an error in a response with status 200', async () => {
    const { port } = await agent(says({ error: { message: 'no model' } }));
    expect(await failure(openai(port))).toMatchObject({ status: 502, retryable: true, message: expect.stringContaining('no model') });
  });
});
