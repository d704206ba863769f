import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { endpointAt } from '../../test/support/endpoint.ts';
import { unboundedMemory } from '../../test/support/exchange-memory.ts';
import { type AgentFailure, type Delivery, type ProtocolSpec } from './protocol.ts';
import { protocolFor } from './protocols.ts';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
});

/** Starts an agent that answers each request once it is complete. */
async function agent(answer: (request: IncomingMessage, response: ServerResponse, body: string) => void): Promise<number> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => answer(request, response, body));
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

const notFound = (_: IncomingMessage, response: ServerResponse) => response.writeHead(404).end('Not Found');
const asJson = (response: ServerResponse, body: unknown) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));

/** Returns the message of the failure of a delivery. */
async function failure(port: number, protocol: ProtocolSpec, other: Partial<Delivery> = {}): Promise<string> {
  const exchange = {
    endpoint: endpointAt({ port }),
    memory: unboundedMemory,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    protocol,
  };
  const message = { id: 'm1', channel: 'chat' as const, conversationId: 'c1', text: 'hello' };
  const delivery: Delivery = { ...exchange, message, history: [], ...other };
  try {
    const deliver = await protocolFor(protocol.name).prepare({
      ...delivery,
      messageId: 'm1',
      conversationId: 'c1',
      publicPath: '/a/agent',
    });
    await deliver(delivery);
  } catch (error) {
    return (error as AgentFailure).message;
  }
  throw new Error('it succeeded');
}

const card = { supportedInterfaces: [{ url: '/rpc?key=s3cret', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }] };
const thread = '[0-9a-f-]{36}';

describe('a failed request to an agent', () => {
  it.each([
    ['mooring', 'POST /messages'],
    ['openai', 'POST /v1/chat/completions'],
    ['langgraph', 'POST /threads/search'],
    ['a2a', 'GET /.well-known/agent-card.json'],
  ] as const)('is named by its method, path and port: %s', async (name, request) => {
    const port = await agent(notFound);
    const plain = await failure(port, { name });
    expect(plain).toMatch(new RegExp(`^${request} on port ${port} answered 404: Not Found`));
    expect(await failure(port, { name }, { onText: () => undefined })).toBe(plain);
  });

  it('is the one that failed of several', async () => {
    const langgraph = await agent((request, response) => {
      if (request.url?.endsWith('/runs/stream') === true) notFound(request, response);
      else asJson(response, []);
    });
    expect(await failure(langgraph, { name: 'langgraph' })).toMatch(
      new RegExp(`^POST /threads/${thread}/runs/stream on port ${langgraph} answered 404: Not Found$`),
    );
    const a2a = await agent((request, response) => {
      if (request.method === 'GET') asJson(response, card);
      else asJson(response, { error: { code: -32_603, message: 'it broke' } });
    });
    expect(await failure(a2a, { name: 'a2a' })).toBe(`POST /rpc on port ${a2a} answered 502: error -32603: it broke`);
  });

  it('is named where the answer is no reply, also in a stream', async () => {
    const other = await agent((_, response) => void asJson(response, { reply: 'x' }));
    expect(await failure(other, { name: 'mooring' })).toMatch(/^POST \/messages on port \d+ answered 200: the answer has no text named/);
    const streamed = await agent((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {"error":{"message":"no model"}}\n\n');
    });
    expect(await failure(streamed, { name: 'openai' }, { onText: () => undefined })).toBe(
      `POST /v1/chat/completions on port ${streamed} answered 502: no model`,
    );
  });

  it('is named where nothing was answered', async () => {
    const silent = await agent(() => undefined);
    expect(await failure(silent, { name: 'mooring' }, { timeoutMs: 300 })).toBe(
      `POST /messages on port ${silent}: the agent did not reply within 0.3 s`,
    );
    const broken = await agent((_, response) => void response.destroy());
    expect(await failure(broken, { name: 'mooring' })).toBe(
      `POST /messages on port ${broken}: the agent broke the connection off before its answer was complete`,
    );
    const [server] = servers.splice(-1);
    await new Promise((resolve) => server?.close(resolve));
    expect(await failure(broken, { name: 'mooring' })).toBe(`POST /messages on port ${broken}: the agent could not be reached`);
  });

  it('is named where the agent is busy with an earlier message for too long', async () => {
    const port = await agent(({ url }, response, body) => {
      const { ids } = JSON.parse(body) as { ids?: string[] };
      asJson(response, url === '/threads/search' ? [{ thread_id: ids?.[0], status: 'busy' }] : []);
    });
    expect(await failure(port, { name: 'langgraph' }, { timeoutMs: 300 })).toMatch(
      /^POST \/threads\/\S+( on port \d+)?: the agent did not reply within 0\.\d+ s$/,
    );
  });

  it('shows neither the query of its path nor its body', async () => {
    const port = await agent(notFound);
    const message = { id: 'm1', channel: 'chat' as const, conversationId: 'c1', text: 'canary' };
    const said = await failure(port, { name: 'mooring', path: '/inbox?key=s3cret' }, { message });
    expect(said).toMatch(/^POST \/inbox on port \d+ answered 404/);
    expect(said).not.toMatch(/s3cret|canary/);
  });

  it('proposes another protocol where the agent has no route for messages', async () => {
    for (const status of [404, 405]) {
      const port = await agent((_, response) => void response.writeHead(status).end('Nothing here.'));
      expect(await failure(port, { name: 'mooring' })).toMatch(
        /: Nothing here\. If the agent speaks another protocol, .*Bring your own agent/,
      );
    }
    const broken = await agent((_, response) => void response.writeHead(500).end('it broke'));
    expect(await failure(broken, { name: 'mooring' })).toBe(`POST /messages on port ${broken} answered 500: it broke`);
  });

  it('is named in a bounded number of characters', async () => {
    const port = await agent((_, response) => void response.writeHead(404).end('x'.repeat(100_000)));
    expect((await failure(port, { name: 'mooring', path: `/${'p'.repeat(5_000)}` })).length).toBeLessThan(1_000);
  });
});
