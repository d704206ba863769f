import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

import { until } from '../../test/support/until.ts';
import { agentConnectionPool, requestTo } from './agent-connection-pool.ts';
import { endpointOf, type AgentEndpoint } from './agent-endpoint.ts';

/** An agent, and the connections that it got. */
interface Bed {
  endpoint: AgentEndpoint;
  /** The number of times that its address was looked up. */
  located: () => number;
  connections: Socket[];
}

async function withAgent(answer: (request: IncomingMessage, response: ServerResponse) => void, use: (bed: Bed) => Promise<void>) {
  const connections: Socket[] = [];
  // It neither says how long it keeps connections nor closes one, unless `answer` does.
  const server = createServer({ keepAliveTimeout: 0 }, answer).on('connection', (socket) => connections.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let located = 0;
  const locate = async () => {
    located += 1;
    return { host: '127.0.0.1', port };
  };
  try {
    await use({
      endpoint: { key: `of ${port}`, agentId: `agent ${port}`, accountId: 'account', locate },
      located: () => located,
      connections,
    });
  } finally {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
}

/** Sends a GET and returns the body of the response. */
async function ask(endpoint: AgentEndpoint): Promise<string> {
  return (await answered(endpoint)).body;
}

/** Sends a GET, and returns the body of the response and the connection, which is not in use any more. */
async function answered(endpoint: AgentEndpoint): Promise<{ body: string; socket: Socket }> {
  const asking = requestTo(endpoint, {}).end();
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  const { socket } = response;
  let body = '';
  for await (const chunk of response) body += String(chunk);
  if (!asking.closed) await once(asking, 'close');
  return { body, socket };
}

describe('the connections to an agent', () => {
  it('are reused for the next request, which does not look up the address', async () => {
    await withAgent(
      (_, response) => response.end('hello'),
      async ({ endpoint, located, connections }) => {
        for (let n = 0; n < 5; n += 1) expect(await ask(endpoint)).toBe('hello');
        expect(connections).toHaveLength(1);
        expect(located()).toBe(1);
      },
    );
  });

  it.each([
    { says: undefined, keptMs: 4_000 },
    { says: 'max=100', keptMs: 4_000 },
    { says: 'timeout=5', keptMs: 4_000 },
    { says: 'timeout=2, max=100', keptMs: 1_000 },
    { says: 'timeout=1', keptMs: 500 },
    { says: 'max=9;timeout=1', keptMs: 500 },
    { says: 'timeout=72', keptMs: 15_000 },
  ])('are kept for $keptMs ms by what the agent says: $says', async ({ says, keptMs }) => {
    const answer = (_: IncomingMessage, response: ServerResponse) => {
      if (says !== undefined) response.setHeader('keep-alive', says);
      response.end('hello');
    };
    await withAgent(answer, async ({ endpoint }) => {
      const { socket } = await answered(endpoint);
      expect(socket.timeout).toBe(keptMs);
      expect(await ask(endpoint)).toBe('hello');
      socket.destroy();
    });
  });

  it('are not kept for an agent that keeps none for any time', async () => {
    await withAgent(
      (_, response) => response.setHeader('keep-alive', 'timeout=0').end('hello'),
      async ({ endpoint, connections }) => {
        await ask(endpoint);
        await ask(endpoint);
        expect(connections).toHaveLength(2);
      },
    );
  });

  it('are closed if no request follows, before the agent closes them', async () => {
    await withAgent(
      (_, response) => response.setHeader('keep-alive', 'timeout=1').end('hello'),
      async ({ endpoint, connections }) => {
        await ask(endpoint);
        const [kept] = connections;
        await until('the connection is closed', async () => (kept?.closed === true ? true : undefined));
      },
    );
  });

  it('are closed on demand, those of one agent and no others', async () => {
    await withAgent(
      (_, response) => response.end('hello'),
      async ({ endpoint, connections }) => {
        const other = { ...endpoint, key: 'other', agentId: 'other' };
        for (const each of [endpoint, other]) await ask(each);
        agentConnectionPool.closeIdleOf(endpoint.agentId);
        for (const each of [endpoint, other]) await ask(each);
        expect(connections).toHaveLength(3);
      },
    );
  });

  it('of one run of a container are not used for another run of it', async () => {
    const locate = () => Promise.reject(new Error('nobody asks'));
    const run = { agentId: 'a', accountId: 'b', generation: 1, activeSince: '2026-11-27T12:00:00.000Z' };
    const keys = [run, { ...run, generation: 2 }, { ...run, activeSince: '2026-11-27T12:00:00.001Z' }, { ...run, agentId: 'c' }].map(
      (each) => endpointOf(each, 8080, locate).key,
    );
    expect(new Set([...keys, endpointOf(run, 8081, locate).key]).size).toBe(5);
    expect(endpointOf({ ...run }, 8080, locate).key).toBe(keys[0]);
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

  it('are closed if an agent sends unrequested data', async () => {
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

  it('are not reused if the agent announces their end', async () => {
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
    const endpoint = { key: 'gone', agentId: 'gone', accountId: 'account', locate: () => Promise.reject(reason) };
    const asking = requestTo(endpoint, {}).end();
    const [error] = (await once(asking, 'error')) as [Error];
    expect(error.cause).toBe(reason);
  });
});
