import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

import { until } from '../../test/support/until.ts';
import { optionsFor } from './kept-connections.ts';
import type { AgentEndpoint } from './agent-endpoint.ts';

/** An agent, and the connections that it got. */
interface Bed {
  endpoint: AgentEndpoint;
  /** The number of times that its address was looked up. */
  located: () => number;
  connections: Socket[];
}

async function withAgent(answer: (request: IncomingMessage, response: ServerResponse) => void, use: (bed: Bed) => Promise<void>) {
  const connections: Socket[] = [];
  const server = createServer(answer).on('connection', (socket) => connections.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let located = 0;
  const locate = async () => {
    located += 1;
    return { host: '127.0.0.1', port };
  };
  try {
    await use({ endpoint: { key: `of ${port}`, locate }, located: () => located, connections });
  } finally {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
}

/** Sends a GET and returns the body of the response. */
async function ask(endpoint: AgentEndpoint): Promise<string> {
  const asking = request(optionsFor(endpoint)).end();
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  let body = '';
  for await (const chunk of response) body += String(chunk);
  if (!asking.closed) await once(asking, 'close');
  return body;
}

describe('the connections to an agent', () => {
  it('are kept for the next request, which looks for no address', async () => {
    await withAgent(
      (_, response) => response.end('hello'),
      async ({ endpoint, located, connections }) => {
        for (let n = 0; n < 5; n += 1) expect(await ask(endpoint)).toBe('hello');
        expect(connections).toHaveLength(1);
        expect(located()).toBe(1);
      },
    );
  });

  it('are closed if no request follows', async () => {
    await withAgent(
      (_, response) => response.end('hello'),
      async ({ endpoint, connections }) => {
        await ask(endpoint);
        const [kept] = connections;
        await until('the connection is closed', async () => (kept?.closed === true ? true : undefined));
      },
    );
  });

  it('of one container are not used for another one with the same address', async () => {
    await withAgent(
      (_, response) => response.end('hello'),
      async ({ endpoint, connections }) => {
        await ask(endpoint);
        await ask({ ...endpoint, key: `${endpoint.key} and later` });
        expect(connections).toHaveLength(2);
      },
    );
  });

  it('are closed if an agent sends what nobody asked for', async () => {
    await withAgent(
      (asked, response) => {
        response.end('hello');
        response.once('finish', () => setImmediate(() => asked.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')));
      },
      async ({ endpoint, connections }) => {
        expect(await ask(endpoint)).toBe('hello');
        const [kept] = connections;
        await until('the connection is closed', async () => (kept?.closed === true ? true : undefined));
        expect(await ask(endpoint)).toBe('hello');
        expect(connections).toHaveLength(2);
      },
    );
  });

  it('are not kept for agents that announce their end', async () => {
    await withAgent(
      (_, response) => response.setHeader('connection', 'close').end('hello'),
      async ({ endpoint, connections }) => {
        await ask(endpoint);
        await ask(endpoint);
        expect(connections).toHaveLength(2);
      },
    );
  });

  it('fail with the reason for which no address was found', async () => {
    const reason = new Error('the container is gone');
    const asking = request(optionsFor({ key: 'gone', locate: () => Promise.reject(reason) })).end();
    const [error] = (await once(asking, 'error')) as [Error];
    expect(error.cause).toBe(reason);
  });
});
