import { spawn, type ChildProcess } from 'node:child_process';
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../../../test/support/until.ts';
import { privateRanges4 } from '../../../kernel/network/private-addresses.ts';

const self = '127.0.0.1';
/** The addresses of the names that the test's name server knows; of a name with several, the first is private. */
const names: Record<string, string[]> = {
  'api.example.com': [self],
  'deep.sub.example.org': [self],
  'inner.example.com': ['10.0.0.1', '169.254.169.254'],
  'other.example.com': [self],
};

/** Answers queries for addresses of names. */
async function nameServer(asked: string[]): Promise<UdpSocket> {
  const socket = createSocket('udp4');
  socket.on('message', (query, { address, port }) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += length + 1;
    }
    asked.push(labels.join('.'));
    const found = names[labels.join('.').toLowerCase()] ?? [];
    const head = Buffer.from([query[0] ?? 0, query[1] ?? 0, 0x81, found.length === 0 ? 0x83 : 0x80, 0, 1, 0, found.length, 0, 0, 0, 0]);
    const answers = found.map((each) => Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...each.split('.').map(Number)]));
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), ...answers]), port, address);
  });
  socket.bind(0, self);
  await once(socket, 'listening');
  return socket;
}

describe('the proxy of agents with a list of names', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mooring-proxy-'));
  const asked: string[] = [];
  let resolver: UdpSocket;
  let web: Server;
  let webPort: number;
  let proxy: ChildProcess;
  let proxyPort: number;

  beforeAll(async () => {
    mkdirSync(join(folder, 'counts'));
    resolver = await nameServer(asked);
    web = createServer((incoming, response) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () =>
        response.end(JSON.stringify({ url: incoming.url, headers: incoming.headers, body: Buffer.concat(chunks).toString() })),
      );
    });
    web.listen(0, self);
    await once(web, 'listening');
    webPort = (web.address() as AddressInfo).port;
    await startProxy();
  });
  afterAll(async () => {
    const ended = once(proxy, 'exit');
    proxy.kill('SIGKILL');
    await ended;
    web.closeAllConnections();
    web.close();
    resolver.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function startProxy(): Promise<void> {
    const server = `${self}:${resolver.address().port}`;
    const program = join(import.meta.dirname, 'egress-proxy.mjs');
    proxy = spawn(process.execPath, [program, folder, '0', server], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [printed] = (await once(proxy.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    proxyPort = Number(printed.toString());
  }

  function tell(allow: string[], open = [{ range: `${self}/32`, port: webPort }]): void {
    writeFileSync(join(folder, 'table.json'), JSON.stringify({ agents: { [self]: allow }, closed: privateRanges4, open }));
  }

  async function get(url: string, headers: Record<string, string> = {}, body = ''): Promise<{ status: number | undefined; text: string }> {
    const outgoing = request({ host: self, port: proxyPort, method: body === '' ? 'GET' : 'POST', path: url, headers, agent: false });
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [NodeJS.ReadableStream & { statusCode?: number }];
    let text = '';
    for await (const chunk of response) text += String(chunk);
    return { status: response.statusCode, text };
  }

  /** Asks for a tunnel. Returns the first line of the answer, and the socket behind it. */
  async function tunnel(place: string): Promise<{ answer: string; socket: Socket }> {
    const socket = connect(proxyPort, self);
    socket.write(`CONNECT ${place} HTTP/1.1\r\nHost: ${place}\r\n\r\n`);
    const [first] = (await once(socket, 'data')) as [Buffer];
    return { answer: first.toString(), socket };
  }

  it('passes requests and tunnels to listed names on', async () => {
    tell([`api.example.com:${webPort}`, `*.example.org:${webPort}`]);
    const answer = await get(
      `http://API.example.com:${webPort}/v1?x=1`,
      { 'x-kept': 'yes', 'proxy-connection': 'keep-alive', host: 'inner.example.com' },
      'hello',
    );
    expect(answer.status).toBe(200);
    const { url, headers, body } = JSON.parse(answer.text) as { url: string; headers: Record<string, string>; body: string };
    expect({ url, body, kept: headers['x-kept'], host: headers.host }).toEqual({
      url: '/v1?x=1',
      body: 'hello',
      kept: 'yes',
      host: `api.example.com:${webPort}`,
    });
    expect(headers).not.toHaveProperty('proxy-connection');

    const { answer: opened, socket } = await tunnel(`deep.sub.example.org:${webPort}`);
    expect(opened).toContain('200 Connection established');
    socket.write('GET /through HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    expect(text).toContain('"url":"/through"');
  });

  it('refuses every other name with a sentence, and does not look it up', async () => {
    tell([`api.example.com:${webPort}`, `*.example.org:${webPort}`]);
    asked.length = 0;
    for (const name of ['other.example.com', 'example.org', 'api.example.com.evil.example', 'xapi.example.com', self, '[::1]']) {
      const { status, text } = await get(`http://${name}:${webPort}/`);
      expect({ name, status, text }).toEqual({ name, status: 403, text: expect.stringContaining('may reach only what is in its list') });
    }
    expect((await tunnel(`other.example.com:${webPort}`)).answer).toContain('403 Forbidden');
    expect(asked).toEqual([]);
  });

  it('allows the ports 80 and 443 where an entry names none, and otherwise that port alone', async () => {
    tell(['api.example.com', 'other.example.com:8443'], []);
    const refusedFor = async (place: string) => /may reach only|private/.exec((await tunnel(place)).answer)?.[0];
    // The name leads to a private address, so an allowed port is refused for that reason.
    expect(await refusedFor('api.example.com:80')).toBe('private');
    expect(await refusedFor('api.example.com:443')).toBe('private');
    expect(await refusedFor('api.example.com:8080')).toBe('may reach only');
    expect(await refusedFor('other.example.com:8443')).toBe('private');
    expect(await refusedFor('other.example.com:443')).toBe('may reach only');
  });

  it('refuses a name that resolves to private addresses, and accepts an opened one', async () => {
    tell([`inner.example.com:${webPort}`, `api.example.com:${webPort}`], []);
    for (const name of ['inner.example.com', 'api.example.com'])
      expect(await get(`http://${name}:${webPort}/`)).toEqual({ status: 403, text: expect.stringContaining('private address') });
    tell([`api.example.com:${webPort}`]);
    expect((await get(`http://api.example.com:${webPort}/`)).status).toBe(200);
  });

  it('passes requests and tunnels to listed addresses on, and to no other one', async () => {
    tell([`127.0.0.0/8:${webPort}`]);
    asked.length = 0;
    expect((await get(`http://${self}:${webPort}/`)).status).toBe(200);
    const { answer, socket } = await tunnel(`${self}:${webPort}`);
    expect(answer).toContain('200 Connection established');
    socket.destroy();
    for (const place of [`http://128.0.0.1:${webPort}/`, `http://${self}:${webPort + 1}/`, `http://api.example.com:${webPort}/`])
      expect(await get(place)).toEqual({ status: 403, text: expect.stringContaining('may reach only what is in its list') });
    expect(asked).toEqual([]);
  });

  it('refuses a listed address that is private, unless the operator opened it', async () => {
    tell([`127.0.0.0/8:${webPort}`, '10.1.2.0/24'], []);
    for (const place of [`http://${self}:${webPort}/`, 'http://10.1.2.3/'])
      expect(await get(place)).toEqual({ status: 403, text: expect.stringContaining('private address') });
  });

  it('connects to the address that it checked, although the name resolves to another one a moment later', async () => {
    tell([`api.example.com:${webPort}`]);
    asked.length = 0;
    expect((await get(`http://api.example.com:${webPort}/`)).status).toBe(200);
    expect(asked).toEqual(['api.example.com']);
  });

  it('applies a new list at once, and keeps the old one while a new one is partly written', async () => {
    tell([`api.example.com:${webPort}`]);
    expect((await get(`http://api.example.com:${webPort}/`)).status).toBe(200);
    writeFileSync(join(folder, 'table.json'), '{"agents": {');
    expect((await get(`http://api.example.com:${webPort}/`)).status).toBe(200);
    tell([`other.example.com:${webPort}`]);
    expect((await get(`http://api.example.com:${webPort}/`)).status).toBe(403);
  });

  it('reports invalid requests, names that are not found and hosts that are not reachable', async () => {
    tell([`missing.example.com`, 'api.example.com:1'], [{ range: `${self}/32`, port: 1 }]);
    expect(await get('/')).toEqual({ status: 400, text: expect.stringContaining('This is a proxy') });
    expect(await get('https://missing.example.com/')).toEqual({ status: 400, text: expect.stringContaining('CONNECT') });
    expect((await tunnel('missing.example.com')).answer).toContain('400 Bad Request');
    expect(await get('http://missing.example.com/')).toEqual({ status: 502, text: expect.stringContaining('was not found') });
    expect(await get('http://api.example.com:1/')).toEqual({ status: 502, text: expect.stringContaining('not reached') });
    expect((await tunnel('api.example.com:1')).answer).toContain('502 Bad Gateway');
  });

  it('limits the headers, and the concurrent requests of one agent', async () => {
    tell([`api.example.com:${webPort}`]);
    const long = connect(proxyPort, self);
    long.on('error', () => undefined);
    long.write(`GET http://api.example.com:${webPort}/ HTTP/1.1\r\nx: ${'y'.repeat(20_000)}`);
    await once(long, 'close');
    const sockets = Array.from({ length: 129 }, () => connect(proxyPort, self));
    const opened = sockets.map(
      (socket) =>
        new Promise<boolean>((resolve) => {
          socket.on('error', () => undefined);
          socket.once('close', () => resolve(false));
          socket.once('data', (answer: Buffer) => resolve(answer.includes('200 Connection established')));
          socket.write(`CONNECT api.example.com:${webPort} HTTP/1.1\r\n\r\n`);
        }),
    );
    const count = (await Promise.all(opened)).filter(Boolean).length;
    expect([count > 0, count <= 128]).toEqual([true, true]);
    for (const socket of sockets) socket.destroy();
    await until('there is room again', async () => {
      const status = await get(`http://api.example.com:${webPort}/`).then(
        (answer) => answer.status,
        () => undefined,
      );
      return status === 200 ? true : undefined;
    });
  });

  it('counts refused requests, and continues counting after it was killed', async () => {
    tell([`api.example.com:${webPort}`], []);
    await get('http://other.example.com/');
    await get(`http://api.example.com:${webPort}/`);
    const counts = () => JSON.parse(readFileSync(join(folder, 'counts', 'refused.json'), 'utf8')) as Record<string, number>;
    await until('the counts are written', () =>
      existsSync(join(folder, 'counts', 'refused.json')) && (counts().limit ?? 0) > 0 ? true : undefined,
    );
    const before = counts();
    expect(Object.keys(before).toSorted()).toEqual(expect.arrayContaining(['address', 'form', 'limit', 'name']));
    const ended = once(proxy, 'exit');
    proxy.kill('SIGKILL');
    await ended;
    await startProxy();
    await get('http://other.example.com/');
    await until('the refusal is counted', () => ((counts().name ?? 0) > (before.name ?? 0) ? true : undefined));
  });
});
