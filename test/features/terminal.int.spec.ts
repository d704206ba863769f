import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';

import { WebSocket } from 'ws';

import { EventStore, type StoredEvent } from '../../src/eventsourcing/event-store/event-store.ts';
import { Database } from '../../src/postgres/database/database.ts';
import { drain } from '../../src/http/server/drain.ts';
import { OpenRequests } from '../../src/http/auth/open-requests.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { sendRaw } from '../support/sample-server.ts';
import { until } from '../support/until.ts';

let talk: ChatFixture;

beforeAll(
  async () => void (talk = await startChatFixture({ MOORING_ALLOWED_ORIGINS: 'https://app.example', MOORING_WEBSOCKET_PING_SECONDS: '1' })),
);
afterAll(() => talk?.server.close());
afterEach(async () => {
  sittings.splice(0).forEach(({ socket }) => socket.terminate());
  await until('all terminals have ended', async () => {
    const types = (await recorded()).map(({ type }) => type);
    const count = (wanted: string) => types.filter((type) => type === wanted).length;
    return count('TerminalOpened') === count('TerminalClosed') ? true : undefined;
  });
});

const sittings: Sitting[] = [];
const pathOf = (agentId = talk.agentId, query = '') => `/api/agents/${agentId}/terminal${query}`;
const wsUrl = (path: string) => `${talk.server.url.replace('http', 'ws')}${path}`;
const as = (credential: string) => ({ authorization: `Bearer ${credential}` });

/** The editors of this machine, with the keys that write a file, each with what is shown once it was taken. */
const editors: [string, ...[string, RegExp][]][] = [
  ['vim -n', ['i', /INSERT/], ['hello', /hello/], ['\u001b', /\[24;1H[^]*\[K/], [':wq\r', /1049l/]],
  ['busybox vi', ['ihello', /hello/], ['\u001b', /- note/], [':wq\r', /1049l/]],
];
const ofThisMachine = editors.filter(([editor]) => existsSync(`/usr/bin/${editor.split(' ')[0]}`));

/** Somebody before a terminal. */
class Sitting {
  shown = '';
  readonly closed: Promise<[number, string]>;

  constructor(readonly socket: WebSocket) {
    socket.on('message', (data: Buffer) => (this.shown += data.toString('latin1')));
    socket.on('error', () => undefined);
    this.closed = once(socket, 'close').then(([code, reason]) => [code as number, String(reason)]);
    // A handshake that is refused is an error, with which this wait ends too; only the tests that await it are told.
    this.closed.catch(() => undefined);
    sittings.push(this);
  }

  type(text: string): void {
    this.socket.send(Buffer.from(text));
  }

  /** Types a line and waits for its output, which must not be a part of the line, since the shell shows that, too. */
  async run(line: string, output: string): Promise<void> {
    this.type(`${line}\r`);
    await until(`${output} is shown`, () => (this.shown.includes(output) ? true : undefined));
  }
}

async function open(path = pathOf(), headers: Record<string, string> = as('mk_acme')): Promise<Sitting> {
  const sitting = new Sitting(new WebSocket(wsUrl(path), { headers }));
  await once(sitting.socket, 'open');
  return sitting;
}

/** Returns the status and the problem with which a handshake is refused. */
function refused(path: string, headers: Record<string, string>): Promise<{ status: number; code: string; type: string }> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(wsUrl(path), { headers });
    socket.on('error', () => undefined);
    socket.on('open', () => reject(new Error('the handshake was accepted')));
    socket.on('unexpected-response', (_, response) => {
      let text = '';
      response.on('data', (bytes: Buffer) => (text += bytes.toString()));
      response.on('end', () => {
        const type = response.headers['content-type'] ?? '';
        resolve({ status: response.statusCode ?? 0, code: JSON.parse(text).code, type });
      });
    });
  });
}

async function recorded(): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of talk.server.app.get(EventStore, { strict: false }).readStream(`exec-${talk.agentId}`)) events.push(event);
  return events;
}

const lastClosed = async () => (await recorded()).filter(({ type }) => type === 'TerminalClosed').at(-1);
const closedAfter = (count: number) =>
  until('the end is recorded', async () => {
    const ends = (await recorded()).filter(({ type }) => type === 'TerminalClosed');
    return ends.length > count ? ends.at(-1) : undefined;
  });
const closings = async () => (await recorded()).filter(({ type }) => type === 'TerminalClosed').length;

describe('a terminal in an agent', () => {
  it('has a shell of the size that was asked for, which changes with it', async () => {
    const sitting = await open(pathOf(talk.agentId, '?cols=132&rows=43'));
    await sitting.run('echo is $(stty size)', 'is 43 132');
    sitting.socket.send('{"type":"resize","cols":100,"rows":30}');
    await sitting.run('until [ "$(stty size)" = "30 100" ]; do sleep 0.02; done; echo fol""lows', 'follows');
  });

  it.each(ofThisMachine)('runs programs that use the whole screen: keys in %s change a file', async (editor, ...steps) => {
    const sitting = await open();
    sitting.type(`rm -f note; ${editor} note\r`);
    await until('the editor is there', () => (/1049h[^]*~/.test(sitting.shown) ? true : undefined));
    for (const [keys, taken] of steps) {
      sitting.shown = '';
      sitting.type(keys);
      await until(`${JSON.stringify(keys)} is taken`, () => (taken.test(sitting.shown) ? true : undefined));
    }
    await sitting.run('echo "[$(cat note)]"', '[hello]');
  });

  it('ends with its shell, and reports the exit code', async () => {
    const before = await closings();
    const sitting = await open();
    sitting.type('exit 3\r');
    expect(await sitting.closed).toEqual([1000, 'The shell ended with exit code 3.']);
    expect((await closedAfter(before)).data).toMatchObject({ end: 'exited', exit_code: 3 });
  });

  it('ends with its caller: the programs in it are killed', async () => {
    const before = await closings();
    const sitting = await open();
    await sitting.run('echo $$ > shell-pid; sleep 300.75 & echo be""gun', 'begun');
    sitting.socket.terminate();
    expect((await closedAfter(before)).data).toMatchObject({ end: 'hung_up' });
    const left = await talk.ask('POST', `/api/agents/${talk.agentId}/exec`, { command: 'kill -0 $(cat shell-pid)' });
    expect(left.json.exitCode).not.toBe(0);
  });

  it('ends with its agent, and reports that', async () => {
    const agentId = await talk.deployed();
    const sitting = await open(pathOf(agentId));
    await sitting.run('echo $((6 * 7))', '42');
    expect((await talk.ask('POST', `/api/agents/${agentId}/stop`)).json.status).toBe('stopped');
    expect(await sitting.closed).toEqual([1001, 'The agent’s container ended.']);
    expect(await refused(pathOf(agentId), as('mk_acme'))).toMatchObject({ status: 409, code: 'agent_unavailable' });
    const started = await talk.ask('POST', `/api/agents/${agentId}/start`);
    expect(started.json.status).toBe('active');
    const other = await open(pathOf(agentId));
    await other.run('echo $((6 * 7))', '42');
    await talk.ask('DELETE', `/api/agents/${agentId}`);
    expect((await other.closed)[0]).toBe(1001);
  });

  it('wakes the agent when it is opened, and at any input', async () => {
    const agent = `/api/agents/${talk.agentId}`;
    const asleep = async () => expect((await talk.ask('POST', `${agent}/sleep`)).json.status).toBe('sleeping');
    await asleep();
    const sitting = await open();
    await sitting.run('echo $((6 * 7))', '42');
    await asleep();
    await sitting.run('echo $((7 * 7))', '49');
    await until('the agent is awake', async () => ((await talk.ask('GET', agent)).json.status === 'active' ? true : undefined));
  });

  it('waits for a slow reader, and loses nothing', async () => {
    const sitting = await open();
    await sitting.run('echo $((6 * 7))', '42');
    sitting.socket.pause();
    sitting.type('stty -opost; head -c 20000000 /dev/zero | tr \'\\0\' z; echo do""ne\r');
    sitting.socket.resume();
    await until('all is shown', () => (sitting.shown.includes('done') ? true : undefined));
    expect(sitting.shown.split('z').length - 1).toBeGreaterThanOrEqual(20_000_000);
  });

  it('ends after a frame that is too large, and after an invalid one', async () => {
    const large = await open();
    large.socket.send(Buffer.alloc(65_537));
    expect((await large.closed)[0]).toBe(1009);
    const odd = await open();
    odd.socket.send('{"type":"what"}');
    expect(await odd.closed).toEqual([1008, expect.stringContaining('"type":"resize"')]);
  });

  it('ends when its caller disappears without a close', async () => {
    const before = await closings();
    const key = 'dGhlIHNhbXBsZSBub25jZQ==';
    const silent = connect(Number(new URL(talk.server.url).port), '127.0.0.1');
    silent.write(
      `GET ${pathOf()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mk_acme\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
    );
    const [answer] = (await once(silent, 'data')) as [Buffer];
    expect(answer.toString()).toContain('101 Switching Protocols');
    expect((await closedAfter(before)).data).toMatchObject({ end: 'hung_up' });
    silent.destroy();
  });

  it('is one of at most eight of an agent', async () => {
    // The place of an earlier terminal is free when its connection has closed, which may be a moment after its end was recorded.
    const whenFree = () => until('there is room', () => open().catch(() => undefined));
    const all = await Promise.all(Array.from({ length: 8 }, whenFree));
    expect(await refused(pathOf(), as('mk_acme'))).toMatchObject({ status: 429, code: 'rate_limited' });
    expect(await refused(pathOf(), as('mk_other'))).toMatchObject({ status: 404, code: 'agent_not_found' });
    all[0]?.socket.close();
    const again = await whenFree();
    expect(again.socket.readyState).toBe(WebSocket.OPEN);
  });

  it('ends with the credential under which it was opened', async () => {
    const sitting = await open(pathOf(), as('mk_acme_deploy'));
    await sitting.run('echo $((6 * 7))', '42');
    talk.server.app.get(OpenRequests).end('mk_acme_deploy');
    expect((await sitting.closed)[0]).toBe(1006);
  });
});

describe('a handshake that is refused', () => {
  it('gets the problem of any other request', async () => {
    const problem = expect.stringContaining('application/problem+json');
    expect(await refused(pathOf(), {})).toEqual({ status: 401, code: 'unauthenticated', type: problem });
    expect(await refused(pathOf(), as('mk_acme_provision'))).toEqual({ status: 403, code: 'insufficient_scope', type: problem });
    expect(await refused(pathOf(), as('mk_other'))).toEqual({ status: 404, code: 'agent_not_found', type: problem });
    expect(await refused(pathOf(talk.agentId, '?cols=0'), as('mk_acme'))).toEqual({ status: 400, code: 'invalid_request', type: problem });
    expect(await refused('/api/no/such/address', as('mk_acme'))).toEqual({ status: 404, code: 'not_found', type: problem });
    expect(await talk.ask('GET', pathOf())).toMatchObject({ status: 400, json: { code: 'invalid_request' } });
    const odd = `GET ${pathOf()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mk_acme\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    expect(await sendRaw(talk.server.url, odd)).toMatch(/^HTTP\/1.1 400 [^]*"code":"invalid_request"/);
  });

  it('comes from the page of another site', async () => {
    expect(await refused(pathOf(), { ...as('mk_acme'), origin: 'https://evil.example' })).toMatchObject({
      status: 403,
      code: 'origin_not_allowed',
    });
    for (const origin of ['https://app.example', talk.server.url]) await open(pathOf(), { ...as('mk_acme'), origin });
  });
});

describe('a request for another protocol', () => {
  it('is answered in HTTP, with its body', async () => {
    const body = JSON.stringify({ command: ['echo', 'plain'] });
    const head = `POST /api/agents/${talk.agentId}/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mk_acme\r\nContent-Type: application/json\r\n`;
    const answer = await sendRaw(
      talk.server.url,
      `${head}Content-Length: ${body.length}\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 200 [^]*"stdout":"plain\\n"/);
  });
});

describe('a ticket', () => {
  const issued = async (credential = 'mk_acme') => talk.server.request('POST', `${pathOf()}/tickets`, { credential });

  it('opens one terminal, once, without another credential', async () => {
    const { status, json, headers } = await issued();
    expect([status, headers.get('cache-control')]).toEqual([201, 'no-store']);
    expect(Date.parse(json.expiresAt)).toBeGreaterThan(Date.now());
    const elsewhere = await talk.deployed();
    expect(await refused(pathOf(elsewhere, `?ticket=${json.ticket}`), {})).toMatchObject({ status: 401 });
    expect(await refused(pathOf(talk.agentId, `?ticket=${json.ticket}`), as('mk_acme'))).toMatchObject({ status: 401 });
    const sitting = await open(pathOf(talk.agentId, `?ticket=${json.ticket}`), {});
    await sitting.run('echo $((6 * 7))', '42');
    expect(await refused(pathOf(talk.agentId, `?ticket=${json.ticket}`), {})).toMatchObject({ status: 401, code: 'unauthenticated' });
    const opened = (await recorded()).findLast(({ type }) => type === 'TerminalOpened');
    expect(opened?.metadata.actor).toMatchObject({ kind: 'api_key', id: 'mk_acme' });
    expect(talk.server.logLines.join('\n')).not.toContain(json.ticket);
    expect(JSON.stringify(await recorded())).not.toContain(json.ticket);
  });

  it('is opened only for an agent of the caller, with the scope deploy', async () => {
    expect(await issued('mk_other')).toMatchObject({ status: 404, json: { code: 'agent_not_found' } });
    expect(await issued('mk_acme_provision')).toMatchObject({ status: 403 });
  });

  it('opens nothing else', async () => {
    const { json } = await issued();
    const path = `/api/agents/${talk.agentId}?ticket=${json.ticket}`;
    expect(await talk.server.request('GET', path)).toMatchObject({ status: 401 });
  });

  it('ends at its timeout', async () => {
    const { json } = await issued();
    await talk.server.app.get(Database, { strict: false }).query('update access_tickets set expires_at = clock_timestamp()');
    expect(await refused(pathOf(talk.agentId, `?ticket=${json.ticket}`), {})).toMatchObject({ status: 401 });
  });
});

describe('the log entries of a terminal', () => {
  it('contain who opened it and how it ended, but neither its input nor its output', async () => {
    const before = await closings();
    const sitting = await open();
    await sitting.run('echo canary-$((6 * 7))', 'canary-42');
    sitting.type('exit\r');
    await closedAfter(before);
    const closed = await lastClosed();
    const opened = (await recorded()).find(({ type, data }) => type === 'TerminalOpened' && data.terminal_id === closed?.data.terminal_id);
    expect(opened).toMatchObject({ data: { agent_id: talk.agentId }, metadata: { actor: { kind: 'api_key', id: 'mk_acme' } } });
    expect(closed).toMatchObject({ data: { end: 'exited', exit_code: 0 } });
    expect(JSON.stringify(await recorded())).not.toContain('canary');
  });
});

describe('the end of the service', () => {
  it('closes terminals with 1001, and records it', async () => {
    const other = await startChatFixture({});
    const sitting = new Sitting(
      new WebSocket(`${other.server.url.replace('http', 'ws')}${pathOf(other.agentId)}`, { headers: as('mk_acme') }),
    );
    await once(sitting.socket, 'open');
    await sitting.run('echo $((6 * 7))', '42');
    await drain(other.server.app, 20_000);
    expect(await sitting.closed).toEqual([1001, 'The service is stopping.']);
    const ends = await until('the end is recorded', async () => {
      const found: StoredEvent[] = [];
      for await (const event of other.server.app.get(EventStore, { strict: false }).readStream(`exec-${other.agentId}`)) found.push(event);
      return found.some(({ type }) => type === 'TerminalClosed') ? found : undefined;
    });
    expect(ends.at(-1)?.data).toMatchObject({ end: 'stopped' });
    await other.server.close();
  });
});
