import { createServer } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { answersOfAHostileAgent } from '../../test/support/hostile-agent.ts';
import { checkReadiness, pollIntervalMs, waitUntilReady } from './readiness.ts';

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

describe('readiness', () => {
  const never = new AbortController().signal;

  it('is detected as soon as the agent starts to answer', async () => {
    let healthy = false;
    const server = createServer((_, response) => {
      response.statusCode = healthy ? 204 : 503;
      response.end();
    });
    const port = await listening(server);
    setTimeout(() => (healthy = true), 200);
    expect(await waitUntilReady({ host: '127.0.0.1', port }, { path: '/healthz' }, 10_000, never)).toBe(true);
  });

  it('waits for a port that does not listen yet', async () => {
    const server = createTcpServer((socket) => socket.on('error', () => undefined));
    const port = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    servers.length = 0;
    const waiting = waitUntilReady({ host: '127.0.0.1', port }, { tcp: true }, 10_000, never);
    const again = createTcpServer((socket) => socket.on('error', () => undefined));
    await listening(again, port);
    expect(await waiting).toBe(true);
  });

  it('is not fooled by a forwarder that closes what it accepts', async () => {
    const port = await listening(createTcpServer((socket) => socket.on('error', () => undefined).end()));
    expect(await waitUntilReady({ host: '127.0.0.1', port }, { tcp: true }, 300, never)).toBe(false);
  });

  it('is seen at the first connection to an address that is no loopback address, since it has no forwarder', async () => {
    const port = await listening(createTcpServer((socket) => socket.on('error', () => undefined).end()));
    expect(await waitUntilReady({ host: '0.0.0.0', port }, { tcp: true }, 10_000, never)).toBe(true);
  });

  it('is not reached by a redirect, an error or silence', async () => {
    for (const status of [302, 404, 500, 0]) {
      const server = createServer((_, response) => {
        if (status === 0) return;
        response.writeHead(status, { location: '/' });
        response.end();
      });
      expect(await waitUntilReady({ host: '127.0.0.1', port: await listening(server) }, { path: '/healthz' }, 200, never)).toBe(false);
    }
  });

  it('is not held up by an agent that sends one informational answer after the other', async () => {
    const port = await listening(
      createTcpServer((socket) => answersOfAHostileAgent['continue without end'](socket.on('error', () => undefined))),
    );
    expect(await waitUntilReady({ host: '127.0.0.1', port }, { path: '/healthz' }, 500, never)).toBe(false);
  });

  it('is checked ever less often, at most a tenth of the time too late', () => {
    expect([0, 20, 500, 5_000, 60_000].map(pollIntervalMs)).toEqual([5, 5, 50, 500, 2_000]);
  });

  it('stops early when the signal aborts', async () => {
    const controller = new AbortController();
    const port = await listening(createServer(() => setImmediate(() => controller.abort())));
    const begun = performance.now();
    expect(await waitUntilReady({ host: '127.0.0.1', port }, { path: '/healthz' }, 60_000, controller.signal)).toBe(false);
    expect(performance.now() - begun).toBeLessThan(30_000);
  });

  it('reports the result of one check', async () => {
    const checked = (port: number, health: { path: string } | { tcp: true } = { path: '/healthz' }) =>
      checkReadiness({ host: '127.0.0.1', port }, health);
    const quiet = (answer: (socket: Socket) => void) => listening(createTcpServer((socket) => answer(socket.on('error', () => undefined))));
    for (const status of [200, 302, 404, 503]) {
      const port = await listening(createServer((_, response) => void response.writeHead(status).end()));
      expect(await checked(port)).toEqual(status === 200 ? { kind: 'ready' } : { kind: 'status', status });
      expect(await checked(port, { tcp: true })).toEqual({ kind: 'ready' });
    }
    expect(await checked(await quiet(() => undefined))).toEqual({ kind: 'silent', isConnected: true });
    const closing = await quiet((socket) => socket.end());
    expect([await checked(closing), await checked(closing, { tcp: true })]).toEqual([{ kind: 'closed' }, { kind: 'closed' }]);
    expect(await checked(await quiet((socket) => void socket.write('SSH-2.0-x\r\n')))).toEqual({ kind: 'no_http' });
    const server = createTcpServer();
    const port = await listening(server);
    servers.pop();
    await new Promise((resolve) => server.close(resolve));
    expect([await checked(port), await checked(port, { tcp: true })]).toEqual([{ kind: 'refused' }, { kind: 'refused' }]);
  });
});
