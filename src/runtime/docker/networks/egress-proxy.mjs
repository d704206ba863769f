/*
 * The proxy of agents with a list of names. It runs in a container of its own, between the network of those agents and the open one. Plain
 * Node without packages, because it runs as it is. Arguments: its folder, its port, and, for tests, a name server.
 * The folder holds table.json: { agents: { address: [name or range] }, closed: { ip: [range], ip6: [range] }, open: [{ range, port }] }. The program
 * keeps the number of refused requests, by reason, in counts/refused.json there.
 */
import { Resolver } from 'node:dns/promises';
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest, STATUS_CODES } from 'node:http';
import { BlockList, connect, isIPv4 } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream';

/** The limit of connections, and of concurrent requests, for each agent. */
const PER_AGENT = 128;
const CONNECTIONS = 8_192;
const HEADER_BYTES = 16 * 1024;
const HEADERS_MS = 10_000;
const CONNECT_MS = 10_000;
/** The time without a byte in either direction after which a connection is closed, in ms. */
const IDLE_MS = 300_000;
const LOOKUP_MS = 3_000;
const COUNTS_MS = 1_000;
const DEFAULT_PORTS = [80, 443];
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade'];

const [folder, port, nameserver] = process.argv.slice(2);
const resolver = new Resolver({ timeout: LOOKUP_MS, tries: 2 });
if (nameserver !== undefined) resolver.setServers([nameserver]);

/** Counts the open requests of each agent, by its address. */
class Shares {
  #counts = new Map();

  /** Returns false if the agent has reached its limit. */
  acquire(agent) {
    const count = this.#counts.get(agent) ?? 0;
    if (count >= PER_AGENT) return false;
    this.#counts.set(agent, count + 1);
    return true;
  }

  release(agent) {
    const count = this.#counts.get(agent) - 1;
    if (count === 0) this.#counts.delete(agent);
    else this.#counts.set(agent, count);
  }
}

/** The allowlists of the agents and the ranges of addresses, as the service last wrote them. */
class Table {
  #seen = null;
  #agents = new Map();
  #closed = new BlockList();
  #open = [];

  /** Reads the file again if it has changed. A partly written file is not used; the service waits until it is complete. */
  refresh() {
    try {
      const { ctimeMs, ino } = statSync(join(folder, 'table.json'));
      if (this.#seen === `${ctimeMs} ${ino}`) return this;
      const { agents, closed, open } = JSON.parse(readFileSync(join(folder, 'table.json'), 'utf8'));
      this.#agents = new Map(Object.entries(agents).map(([agent, entries]) => [agent, entries.map(entryOf)]));
      this.#closed = listOf(closed);
      this.#open = open.map((each) => ({ port: each.port, list: listOf([each.range]) }));
      this.#seen = `${ctimeMs} ${ino}`;
    } catch {
      // The allowlists that were read before stay in force.
    }
    return this;
  }

  allows(agent, host, wantedPort) {
    return (this.#agents.get(agent) ?? []).some(({ ports, fits }) => ports.includes(wantedPort) && fits(host));
  }

  isOpen(address, wantedPort) {
    if (!this.#closed.check(address, 'ipv4')) return true;
    return this.#open.some((each) => (each.port === null || each.port === wantedPort) && each.list.check(address, 'ipv4'));
  }
}

/**
 * Returns the ports of an entry of an allowlist, and the function that says whether the entry covers a host. An address is covered only by
 * a range, and a name only by a name.
 */
function entryOf(entry) {
  const [name, ownPort] = entry.split(':');
  const ports = ownPort === undefined ? DEFAULT_PORTS : [Number(ownPort)];
  if (name.includes('/')) {
    const range = listOf([name]);
    return { ports, fits: (host) => isIPv4(host) && range.check(host, 'ipv4') };
  }
  if (!name.startsWith('*.')) return { ports, fits: (host) => host === name };
  return { ports, fits: (host) => host.endsWith(name.slice(1)) && host.length > name.length - 1 };
}

function listOf(ranges) {
  const list = new BlockList();
  for (const range of ranges) {
    const [address, bits] = range.split('/');
    list.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** The numbers of refused requests, which survive a restart. */
class Counts {
  #file = join(folder, 'counts', 'refused.json');
  #counts = {};
  #isWriting = false;

  constructor() {
    try {
      this.#counts = JSON.parse(readFileSync(this.#file, 'utf8'));
    } catch {
      // The file does not exist yet.
    }
  }

  add(why) {
    this.#counts[why] = (this.#counts[why] ?? 0) + 1;
    if (this.#isWriting) return;
    this.#isWriting = true;
    setTimeout(() => {
      this.#isWriting = false;
      writeFileSync(`${this.#file}.new`, JSON.stringify(this.#counts));
      renameSync(`${this.#file}.new`, this.#file);
    }, COUNTS_MS);
  }
}

class Refused extends Error {
  constructor(why, message, status = 403) {
    super(message);
    this.why = why;
    this.status = status;
  }
}

const table = new Table();
const counts = new Counts();
const connections = new Shares();
const requests = new Shares();

/**
 * Returns the options of a connection to the host. They contain the addresses that were checked, so that the name is not resolved again.
 */
async function reach(agent, hostname, wantedPort) {
  const host = hostname.toLowerCase().replace(/\.$/, '');
  if (!table.refresh().allows(agent, host, wantedPort))
    throw new Refused('name', `This agent may reach only what is in its list, and ${host}:${wantedPort} is not among them.`);
  const found = isIPv4(host) ? [host] : await resolver.resolve4(host).catch(() => []);
  if (found.length === 0) throw new Refused('lookup', `The name ${host} was not found.`, 502);
  const open = found.filter((address) => table.isOpen(address, wantedPort));
  if (open.length === 0) throw new Refused('address', `${host} is or leads to a private address, which agents may not reach.`);
  const addresses = open.map((address) => ({ address, family: 4 }));
  const lookup = (_, { all }, answer) => (all ? answer(null, addresses) : answer(null, addresses[0].address, 4));
  return { host, port: wantedPort, lookup, timeout: CONNECT_MS };
}

/** Runs the work as one of the agent's requests. Passes a refusal or an error to `refuse`. */
async function serve(agent, work, refuse) {
  const isWithinShare = requests.acquire(agent);
  try {
    if (!isWithinShare) throw new Refused('limit', `This agent has ${PER_AGENT} requests under way, which is the most.`, 429);
    await work();
  } catch (error) {
    if (error instanceof Refused && error.why !== 'lookup') counts.add(error.why);
    refuse(error instanceof Refused ? error : new Refused('unreachable', 'The host was not reached.', 502));
  } finally {
    if (isWithinShare) requests.release(agent);
  }
}

function targetOf(text) {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.protocol !== 'http:' || url.username !== '' || url.password !== '')
    throw new Refused('form', 'This is a proxy: it takes CONNECT, and requests for http://… addresses.', 400);
  return { url, host: url.hostname, port: Number(url.port || 80) };
}

async function forward(agent, request, response) {
  const { url, host, port: wantedPort } = targetOf(request.url);
  const options = await reach(agent, host, wantedPort);
  const named = String(request.headers.connection ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  const passed = (headers) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && !named.includes(name)));
  await new Promise((resolve, reject) => {
    const outgoing = httpRequest({
      ...options,
      method: request.method,
      path: `${url.pathname}${url.search}`,
      headers: { ...passed(request.headers), host: url.host },
      agent: false,
      maxHeaderSize: HEADER_BYTES,
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error('it took too long')));
    outgoing.on('socket', (socket) => socket.once('connect', () => outgoing.setTimeout(IDLE_MS)));
    outgoing.on('response', (incoming) => {
      response.writeHead(incoming.statusCode, passed(incoming.headers));
      pipeline(incoming, response, () => resolve());
    });
    outgoing.on('error', reject);
    response.once('close', () => {
      outgoing.destroy();
      resolve();
    });
    if (response.destroyed) outgoing.destroy(new Error('the agent is gone'));
    pipeline(request, outgoing, () => undefined);
  });
}

async function tunnel(agent, request, socket, head) {
  const [, host, wantedPort] = /^([^\s:/@?#]+):(\d{1,5})$/.exec(request.url) ?? [];
  if (host === undefined) throw new Refused('form', 'CONNECT takes name:port.', 400);
  const options = await reach(agent, host, Number(wantedPort));
  await new Promise((resolve, reject) => {
    const outgoing = connect({ ...options, allowHalfOpen: true });
    let isConnected = false;
    outgoing.setTimeout(CONNECT_MS, () => outgoing.destroy(new Error('it took too long')));
    outgoing.on('error', (error) => (isConnected ? socket.destroy() : reject(error)));
    outgoing.once('close', () => {
      if (isConnected) socket.destroy();
      resolve();
    });
    socket.once('close', () => outgoing.destroy());
    outgoing.once('connect', () => {
      isConnected = true;
      outgoing.setTimeout(IDLE_MS);
      socket.setTimeout(IDLE_MS, () => socket.destroy());
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      outgoing.write(head);
      socket.pipe(outgoing);
      outgoing.pipe(socket);
    });
    if (socket.destroyed) outgoing.destroy();
  });
}

const server = createServer({ maxHeaderSize: HEADER_BYTES, headersTimeout: HEADERS_MS, requestTimeout: 0, keepAliveTimeout: HEADERS_MS });
server.maxConnections = CONNECTIONS;
server.setTimeout(IDLE_MS);

server.on('connection', (socket) => {
  const { remoteAddress } = socket;
  socket.on('error', () => socket.destroy());
  if (!connections.acquire(remoteAddress)) {
    counts.add('limit');
    socket.destroy();
    return;
  }
  socket.once('close', () => connections.release(remoteAddress));
});

server.on('request', (request, response) => {
  const refuse = ({ status, message }) => {
    if (response.headersSent) return response.destroy();
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${message}\n`);
  };
  void serve(request.socket.remoteAddress, () => forward(request.socket.remoteAddress, request, response), refuse);
});

server.on('connect', (request, socket, head) => {
  socket.on('error', () => socket.destroy());
  const refuse = ({ status, message }) => {
    const text = `${message}\n`;
    const headers = `content-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(text)}\r\nconnection: close`;
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n\r\n${text}`);
  };
  void serve(socket.remoteAddress, () => tunnel(socket.remoteAddress, request, socket, head), refuse);
});

server.on('clientError', (_, socket) => socket.destroy());
process.on('SIGTERM', () => process.exit(0));
server.listen(Number(port), '0.0.0.0', () => process.stdout.write(`${server.address().port}\n`));
