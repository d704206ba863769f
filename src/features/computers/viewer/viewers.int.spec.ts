import { clipboardText } from '../../../../test/support/browser-messages.ts';
import { FakeRfbServer } from '../../../../test/support/fake-rfb-server.ts';
import { until, untilTrue } from '../../../../test/support/until.ts';
import { Browser, problemOf, ViewerFixture, type Viewing } from '../../../../test/support/viewer-fixture.ts';
import { Database } from '../../../postgres/database/database.ts';
import { EventStore, type StoredEvent } from '../../../eventsourcing/event-store/event-store.ts';
import { Sagas } from '../../../eventsourcing/sagas/saga.ts';
import { systemContext } from '../../../kernel/context/command-context.ts';
import { keyEvent, pointerEvent, updateRequest } from '../../../desktop/rfb/client-messages.ts';
import { ViewerWatch } from '../watch/viewer-watch.service.ts';
import { ViewerConnections } from './viewer-connections.service.ts';
import { ViewerLinks } from './viewer-links.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { ViewerSessions } from './viewer-sessions.service.ts';
import { CONNECTIONS_MAX } from './viewers.decider.ts';

let bed: ViewerFixture;

beforeAll(async () => void (bed = await ViewerFixture.start()));
afterAll(() => bed?.server.close());
afterEach(() => bed.disconnectAll());

const of = <T>(service: new (...parts: never[]) => T): T => bed.server.app.get(service, { strict: false });
const database = () => of(Database);
const events = async (computerId: string): Promise<StoredEvent[]> => {
  const store = bed.server.app.get(EventStore, { strict: false });
  const found: StoredEvent[] = [];
  for await (const event of store.readStream(`viewer-${computerId}`)) found.push(event);
  return found;
};
const types = async (computerId: string) => (await events(computerId)).map(({ type }) => type);
const connect = (path: string, browser?: Browser) => bed.connect(path, browser);
/** Waits until the service has read what the viewer sent before: the desktop answers a request for one pixel after it. */
const isRead = async (viewing: Viewing) => {
  const before = viewing.received.length;
  viewing.send(updateRequest(false, 1, 1));
  await viewing.has(before + 20);
};
const browser = (origin?: string | null) => bed.browser(origin);

describe('a link to a computer', () => {
  it('is made for whoever may, of a computer that is awake then', async () => {
    const computerId = bed.computer();
    (bed.desktops.computers.get(computerId) as { fate: string }).fate = 'asleep';
    const asked = { mode: 'view', ttl_seconds: 60, label: 'support' };
    const { status, json, headers } = await bed.ask('POST', `/api/v1/computers/${computerId}/viewer`, asked);
    expect(status).toBe(201);
    expect(json).toEqual({ session_id: expect.any(String), url: expect.any(String), mode: 'view', expires_at: expect.any(String) });
    expect(json.url).toMatch(new RegExp(`^${bed.server.url}/viewer/[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]{43}$`));
    expect(headers.get('cache-control')).toBe('no-store');
    expect(bed.desktops.woken).toContain(computerId);
    expect(await bed.sessions(computerId)).toEqual([
      {
        session_id: json.session_id,
        computer_id: computerId,
        mode: 'view',
        exclusive: false,
        label: 'support',
        status: 'pending',
        created_at: expect.any(String),
        expires_at: json.expires_at,
        connected_at: null,
        last_input_at: null,
        closed_at: null,
        connections: 0,
      },
    ]);
  });

  it.each([
    [{ mode: 'watch' }, 'mode'],
    [{ ttl_seconds: 29 }, 'ttl_seconds'],
    [{ ttl_seconds: 86_401 }, 'ttl_seconds'],
    [{ label: '' }, 'label'],
    [{ label: 'a\nb' }, 'label'],
    [{ label: 'a'.repeat(101) }, 'label'],
    [{ exclusive: 'yes' }, 'exclusive'],
    [{ mode: 'view', exclusive: true }, 'exclusive'],
  ])('is refused for %j', async (json, field) => {
    const refused = await bed.ask('POST', `/api/v1/computers/${bed.computer()}/viewer`, json);
    expect([refused.status, refused.json.errors[0].field]).toEqual([400, field]);
  });

  it('can’t be created, listed or closed by others', async () => {
    const computerId = bed.computer();
    for (const [method, path] of [
      ['POST', 'viewer'],
      ['GET', 'sessions'],
      ['POST', 'sessions/close'],
    ] as const) {
      const address = `/api/v1/computers/${computerId}/${path}`;
      const json = method === 'POST' ? {} : undefined;
      expect(problemOf(await bed.ask(method, address, json, 'mk_other'))).toEqual([404, 'computer_not_found']);
      expect(problemOf(await bed.ask(method, address, json, 'mk_acme_deploy'))).toEqual([403, 'insufficient_scope']);
      expect(problemOf(await bed.ask(method, `/api/v1/computers/x/${path}`, json))).toEqual([404, 'computer_not_found']);
    }
  });

  it('does not wake a computer if that is not wanted', async () => {
    const computerId = bed.computer();
    (bed.desktops.computers.get(computerId) as { fate: string }).fate = 'asleep';
    expect(problemOf(await bed.ask('POST', `/api/v1/computers/${computerId}/viewer?wake=false`, {}))).toEqual([409, 'computer_asleep']);
  });

  it('opens a page that loads nothing from elsewhere, and that no other page may frame', async () => {
    const { path } = await bed.session(bed.computer());
    const page = await bed.server.request('GET', path);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; " +
        "form-action 'none'; frame-ancestors 'none'",
    );
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(page.text).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|style=/);
    const files = [...page.text.matchAll(/(?:href|src)="(assets\/[^"]+)"/g)].map(([, file]) => file);
    expect(files).toHaveLength(2);
    for (const file of [...files, `${files[1]?.replace('viewer.mjs', 'novnc/core/rfb.js')}`]) {
      const asset = await bed.server.request('GET', `/viewer/${file}`);
      expect([asset.status, asset.headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
      expect(asset.headers.get('content-type')).toMatch(/^text\/(css|javascript); charset=utf-8$/);
    }
  });

  it('has no other files', async () => {
    const { text } = await bed.server.request('GET', (await bed.session(bed.computer())).path);
    const folder = /assets\/\w+/.exec(text)?.[0];
    for (const path of [
      `${folder}/index.html`,
      `${folder}/novnc/package.json`,
      `${folder}/novnc/..%2fviewer.mjs`,
      'assets/other/viewer.mjs',
    ])
      expect(problemOf(await bed.server.request('GET', `/viewer/${path}`))).toEqual([404, 'not_found']);
  });
});

describe('a viewer', () => {
  it('sees the desktop and controls it', async () => {
    const desktop = new FakeRfbServer({ width: 300, height: 200 });
    const computerId = bed.computer(desktop);
    const { path } = await bed.session(computerId);
    const viewing = await connect(path);
    expect([viewing.received.readUInt16BE(0), viewing.received.readUInt16BE(2)]).toEqual([300, 200]);
    expect(viewing.states).toEqual([{ type: 'session', mode: 'control', control: true }]);
    viewing.send(
      keyEvent(0x61, true),
      keyEvent(0x61, false),
      pointerEvent(1, 20, 30),
      pointerEvent(0, 20, 30),
      clipboardText(Buffer.from('hello')),
    );
    await isRead(viewing);
    expect(desktop.events).toEqual(['key 61 down', 'key 61 up', 'pointer 20,30 1', 'pointer 20,30 0']);
    expect(desktop.pasted).toEqual(['hello']);
    expect(bed.desktops.moves).toContain(`${computerId} 20,30`);
    expect(bed.desktops.held).toContain(computerId);
    expect(await of(ViewerWatch).isWatched(computerId)).toBe(true);
    expect(await bed.sessions(computerId)).toMatchObject([{ status: 'connected', connections: 1, connected_at: expect.any(String) }]);
  });

  it('that only sees it changes nothing, whatever it sends, and does not hold it awake', async () => {
    const desktop = new FakeRfbServer();
    const computerId = bed.computer(desktop);
    const viewing = await connect((await bed.session(computerId, { mode: 'view' })).path);
    expect(viewing.control).toBe(false);
    viewing.send(keyEvent(0x61, true), pointerEvent(1, 5, 5), clipboardText(Buffer.from('hello')), keyEvent(0x61, false));
    await isRead(viewing);
    expect([desktop.events, desktop.pasted]).toEqual([[], []]);
    expect(bed.desktops.held).not.toContain(computerId);
    expect(await of(ViewerWatch).isWatched(computerId)).toBe(true);
  });

  it('leaves no key or button down', async () => {
    const desktop = new FakeRfbServer();
    const viewing = await connect((await bed.session(bed.computer(desktop))).path);
    viewing.send(keyEvent(0xffe1, true), pointerEvent(1, 5, 6));
    await isRead(viewing);
    viewing.socket.terminate();
    await untilTrue(() => desktop.events.length === 4);
    expect(desktop.events.slice(2)).toEqual(['key ffe1 up', 'pointer 5,6 0']);
  });

  it('is recorded, with its time, and so is who made the link', async () => {
    const computerId = bed.computer();
    const { id, path } = await bed.session(computerId);
    const viewing = await connect(path);
    viewing.socket.close();
    const told = await until('the end is recorded', async () => {
      const found = await events(computerId);
      return found.length === 3 ? found : undefined;
    });
    const connectionId = told[1]?.data.connection_id;
    expect(told.map(({ type, data, metadata }) => [type, data, metadata.actor.kind, metadata.account_id])).toEqual([
      ['ViewerCreated', expect.objectContaining({ session_id: id, computer_id: computerId }), 'api_key', 'acme'],
      ['ViewerConnected', { session_id: id, computer_id: computerId, connection_id: connectionId, mode: 'control' }, 'viewer', 'acme'],
      ['ViewerDisconnected', { session_id: id, computer_id: computerId, connection_id: connectionId, seconds: 0 }, 'viewer', 'acme'],
    ]);
    expect(await bed.sessions(computerId)).toMatchObject([{ status: 'disconnected', connections: 0 }]);
  });

  it('that breaks the protocol is cut off', async () => {
    const viewing = await connect((await bed.session(bed.computer())).path);
    viewing.send(Buffer.of(99));
    expect(await viewing.closed).toEqual([1008, expect.stringContaining('type 99')]);
    const talking = await connect((await bed.session(bed.computer())).path);
    talking.socket.send('text');
    expect((await talking.closed)[0]).toBe(1008);
  });

  it('gets a close code if the desktop ended or can not be reached', async () => {
    const desktop = new FakeRfbServer();
    const computerId = bed.computer(desktop);
    const viewing = await connect((await bed.session(computerId)).path);
    desktop.hangUp();
    expect((await viewing.closed)[0]).toBe(4005);
    const broken = bed.computer({
      dial: () => {
        const stream = new FakeRfbServer().dial();
        stream.destroy();
        return stream;
      },
    });
    const { path } = await bed.session(broken);
    const own = browser();
    const { json } = await own.ticket(path);
    expect(await own.refused(path, json.ticket)).toEqual({ status: 502, code: 'desktop_unreachable' });
    expect(await types(broken)).toEqual(['ViewerCreated']);
  });

  it('is one of 32 of the computer at most', async () => {
    const computerId = bed.computer();
    const { path } = await bed.session(computerId);
    const own = browser();
    const first = await connect(path, own);
    for (let n = 1; n < CONNECTIONS_MAX; n += 1) await connect(path, own);
    const { json } = await own.ticket(path);
    expect(await own.refused(path, json.ticket)).toEqual({ status: 429, code: 'rate_limited' });
    first.socket.close();
    await until('one has left', async () => ((await types(computerId)).includes('ViewerDisconnected') ? true : undefined));
    await connect(path, own);
  });
});

describe('a session that has ended', () => {
  const isDead = async (path: string, own: Browser, word: string) => {
    const page = await bed.server.request('GET', path);
    expect([page.status, page.text]).toEqual([410, expect.stringContaining(`data-state="${word}"`)]);
    const { status, json } = await own.ticket(path);
    expect([status, json.code, json.reason]).toEqual([410, 'session_closed', word]);
  };

  it('because it was closed has a dead link, and its connections are cut at once', async () => {
    const computerId = bed.computer();
    const { id, path } = await bed.session(computerId);
    const other = await bed.session(computerId);
    const own = browser();
    const [viewing, spared] = [await connect(path, own), await connect(other.path)];
    const { json } = await own.ticket(path);
    const closed = await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, { session_id: id });
    expect([closed.status, closed.json]).toEqual([200, { closed: 1 }]);
    expect((await viewing.closed)[0]).toBe(4001);
    await isDead(path, own, 'closed');
    expect(await own.refused(path, json.ticket)).toEqual({ status: 410, code: 'session_closed' });
    expect(await bed.sessions(computerId)).toMatchObject([{ status: 'connected' }, { status: 'closed', closed_at: expect.any(String) }]);
    await isRead(spared);
    expect(await types(computerId)).toEqual(expect.arrayContaining(['ViewerDisconnected', 'ViewerClosed']));
  });

  it('because all were closed ends with the others', async () => {
    const computerId = bed.computer();
    await bed.session(computerId);
    const viewing = await connect((await bed.session(computerId)).path);
    expect((await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, {})).json).toEqual({ closed: 2 });
    expect((await viewing.closed)[0]).toBe(4001);
    expect((await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, {})).json).toEqual({ closed: 0 });
    expect((await types(computerId)).slice(-3)).toEqual(['ViewerClosed', 'ViewerDisconnected', 'ViewerClosed']);
  });

  it('was one of the computer', async () => {
    const computerId = bed.computer();
    const { id } = await bed.session(bed.computer());
    for (const session_id of [id, 'no-id'])
      expect(problemOf(await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, { session_id }))).toEqual([
        404,
        'session_not_found',
      ]);
  });

  it('because its time is over is cut off, and listed as expired', async () => {
    const computerId = bed.computer();
    const link = await of(ViewerSessions).create({
      computerId,
      accountId: 'acme',
      sessionId: '01890a5d-ac96-774b-bcce-b302099a8057',
      mode: 'control',
      exclusive: false,
      label: null,
      ttlSeconds: 2.5,
      wake: true,
      context: systemContext('test', 'acme'),
      signal: new AbortController().signal,
    });
    const { pathname: path } = new URL(of(ViewerLinks).urlOf(link, bed.server.url));
    const own = browser();
    const viewing = await connect(path, own);
    expect((await viewing.closed)[0]).toBe(4002);
    expect(Date.now()).toBeGreaterThanOrEqual(link.expiresAt);
    await isDead(path, own, 'expired');
    await until('it is listed as expired', async () => ((await bed.sessions(computerId))[0]?.status === 'expired' ? true : undefined));
  });

  it.each([
    ['asleep', 4003],
    ['deleted', 4004],
  ] as const)('because its computer is %s is cut off', async (fate, code) => {
    const computerId = bed.computer();
    const { path } = await bed.session(computerId);
    const own = browser();
    const viewing = await connect(path, own);
    (bed.desktops.computers.get(computerId) as { fate: string }).fate = fate;
    bed.server.app.get(Sagas, { strict: false }).wake('viewers', computerId);
    expect((await viewing.closed)[0]).toBe(code);
    await isDead(path, own, fate);
  });
});

describe('exclusive control', () => {
  it('blocks the input of everybody else while its viewer is connected', async () => {
    const desktop = new FakeRfbServer();
    const computerId = bed.computer(desktop);
    const other = await connect((await bed.session(computerId)).path);
    other.send(keyEvent(0xffe1, true));
    await isRead(other);
    const { path } = await bed.session(computerId, { exclusive: true });
    expect(other.control).toBe(true);
    const alone = await connect(path);
    await untilTrue(() => other.control === false);
    expect(await of(ViewerRecords).inControl(computerId)).toBe(true);
    other.send(keyEvent(0x62, true));
    await isRead(other);
    alone.send(keyEvent(0x63, true), keyEvent(0x63, false));
    await isRead(alone);
    expect(desktop.events).toEqual(['key ffe1 down', 'key ffe1 up', 'key 63 down', 'key 63 up']);
    alone.socket.close();
    await untilTrue(() => other.control === true);
    expect(await of(ViewerRecords).inControl(computerId)).toBe(false);
    other.send(keyEvent(0x64, true));
    await isRead(other);
    expect(desktop.events.at(-1)).toBe('key 64 down');
  });

  it('is that of one session at a time', async () => {
    const computerId = bed.computer();
    const { id } = await bed.session(computerId, { exclusive: true });
    const again = () => bed.ask('POST', `/api/v1/computers/${computerId}/viewer`, { exclusive: true });
    expect(problemOf(await again())).toEqual([409, 'human_in_control']);
    await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, { session_id: id });
    expect((await again()).status).toBe(201);
  });
});

describe('the connections of a service that was killed', () => {
  it('are ended by another, with the time for which they are known to have lasted', async () => {
    const computerId = bed.computer();
    const { id } = await bed.session(computerId, { exclusive: true });
    await database().query(
      `insert into viewer_connections (connection_id, session_id, computer_id, account_id, owner, connected_at, seen_at)
       values ('lost', $1, $2, 'acme', 'dead', clock_timestamp() - interval '100 seconds', clock_timestamp())`,
      [id, computerId],
    );
    const command = { type: 'ConnectViewer' as const, sessionId: id, connectionId: 'lost' };
    await of(ViewerRecords).execute(computerId, command, systemContext('test', 'acme'));
    expect(await of(ViewerWatch).isWatched(computerId)).toBe(true);
    // Nobody renews it any more.
    await database().query(`update viewer_connections set seen_at = seen_at - interval '60 seconds' where connection_id = 'lost'`);
    expect(await of(ViewerConnections).abandoned()).toEqual([{ computerId, accountId: 'acme' }]);
    expect(await of(ViewerWatch).isWatched(computerId)).toBe(false);
    bed.server.app.get(Sagas, { strict: false }).wake('viewers', computerId);
    const ended = await until('its end is recorded', async () =>
      (await events(computerId)).find(({ type }) => type === 'ViewerDisconnected'),
    );
    expect([ended.data.seconds, ended.metadata.actor.kind]).toEqual([40, 'system']);
    expect(await of(ViewerRecords).inControl(computerId)).toBe(false);
  });
});
