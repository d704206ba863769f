import { createHash } from 'node:crypto';

import { Browser, problemOf, ViewerFixture } from '../../../../test/support/viewer-fixture.ts';
import { Database } from '../../../postgres/database/database.ts';

let bed: ViewerFixture;

beforeAll(async () => void (bed = await ViewerFixture.start()));
afterAll(() => bed?.server.close());
afterEach(() => bed.disconnectAll());

const database = () => bed.server.app.get(Database, { strict: false });
const connect = (path: string, browser?: Browser) => bed.connect(path, browser);
const browser = (origin?: string | null) => bed.browser(origin);

describe('the browser of a link', () => {
  it('is the first that asks for a ticket, and not a program that fetched the link before', async () => {
    const { path } = await bed.session(bed.computer());
    await bed.server.request('GET', path);
    await bed.server.request('HEAD', path);
    const first = browser();
    await connect(path, first);
    const second = browser();
    expect(problemOf(await second.ticket(path))).toEqual([403, 'viewer_taken']);
    const { json } = await first.ticket(path);
    expect(await second.refused(path, json.ticket)).toEqual({ status: 403, code: 'viewer_taken' });
  });

  it('may load the page again, and open it twice', async () => {
    const { path } = await bed.session(bed.computer());
    const own = browser();
    (await connect(path, own)).socket.terminate();
    await connect(path, own);
    await connect(path, own);
  });

  it('is a single one even if two request a ticket concurrently', async () => {
    const { path } = await bed.session(bed.computer());
    const statuses = await Promise.all(Array.from({ length: 10 }, () => browser().ticket(path)));
    expect(statuses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array<number>(9).fill(403)]);
  });

  it('is not one that has a cookie which another page of the host has planted', async () => {
    const { path } = await bed.session(bed.computer());
    const planted = `mooring_viewer=${'A'.repeat(43)}`;
    const { status, headers } = await browser().ticket(path, { cookie: planted });
    expect(status).toBe(201);
    expect(headers.get('set-cookie')).not.toContain(planted);
    expect((await browser().ticket(path, { cookie: planted })).json.code).toBe('viewer_taken');
  });

  it('is identified by a cookie that only this link receives, and no script can read', async () => {
    const { path } = await bed.session(bed.computer());
    const cookie = (await browser().ticket(path)).headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(/^mooring_viewer=[A-Za-z0-9_-]{43}; Path=\/viewer\/[^;]+; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
    expect(cookie).toContain(`Path=${path};`);
  });
});

describe('a ticket', () => {
  it('is good for one connection', async () => {
    const { path } = await bed.session(bed.computer());
    const own = browser();
    const { json } = await own.ticket(path);
    const socket = own.socket(path, json.ticket);
    await new Promise((resolve) => socket.once('open', resolve));
    socket.terminate();
    expect(await own.refused(path, json.ticket)).toEqual({ status: 401, code: 'unauthenticated' });
    expect(await own.refused(path, 'mt_unknown')).toEqual({ status: 401, code: 'unauthenticated' });
  });

  it('is good for 30 seconds', async () => {
    const { path } = await bed.session(bed.computer());
    const own = browser();
    const { json } = await own.ticket(path);
    await database().query('update access_tickets set expires_at = clock_timestamp()');
    expect(await own.refused(path, json.ticket)).toEqual({ status: 401, code: 'unauthenticated' });
  });

  it('is good for its session only', async () => {
    const computerId = bed.computer();
    const [one, other] = [await bed.session(computerId), await bed.session(computerId)];
    const own = browser();
    const stranger = browser();
    const { json } = await own.ticket(one.path);
    await stranger.ticket(other.path);
    expect(await stranger.refused(other.path, json.ticket)).toEqual({ status: 401, code: 'unauthenticated' });
  });

  it('is given to the page itself, and to no page of another origin', async () => {
    const { path } = await bed.session(bed.computer());
    for (const origin of ['https://evil.example', 'null', `${bed.server.url}.evil.example`, null])
      expect(problemOf(await browser(origin).ticket(path))).toEqual([403, 'origin_not_allowed']);
    for (const site of ['cross-site', 'same-site', 'none'])
      expect(problemOf(await browser().ticket(path, { 'sec-fetch-site': site }))).toEqual([403, 'origin_not_allowed']);
    expect((await browser().ticket(path, { 'sec-fetch-site': 'same-origin' })).status).toBe(201);
  });

  it('does not let a page of another origin connect, which does not use it up', async () => {
    const { path } = await bed.session(bed.computer());
    const own = browser();
    const answer = await own.ticket(path);
    const cookie = answer.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
    const foreign = browser('https://evil.example');
    Object.assign(foreign, { cookie });
    expect(await foreign.refused(path, answer.json.ticket)).toEqual({ status: 403, code: 'origin_not_allowed' });
    const socket = own.socket(path, answer.json.ticket);
    await new Promise((resolve) => socket.once('open', resolve));
    socket.terminate();
  });

  it('is the only credential of a connection, and of nothing else', async () => {
    const { path } = await bed.session(bed.computer());
    const { json } = await browser().ticket(path);
    expect(problemOf(await bed.ask('GET', `${path}/socket`))).toEqual([403, 'origin_not_allowed']);
    const address = `/api/v1/computers/${bed.computer()}/sessions?ticket=${json.ticket}`;
    expect((await bed.server.request('GET', address)).status).toBe(401);
  });
});

describe('a link that was changed', () => {
  it('gets 401 everywhere, without any lookup', async () => {
    const { path } = await bed.session(bed.computer());
    const changed = `${path.slice(0, -2)}${path.endsWith('AA') ? 'BB' : 'AA'}`;
    const page = await bed.server.request('GET', changed);
    expect([page.status, page.text]).toEqual([401, expect.stringContaining('data-state="invalid"')]);
    expect(problemOf(await browser().ticket(changed))).toEqual([401, 'unauthenticated']);
    expect(await browser().refused(changed, 'mt_x')).toEqual({ status: 401, code: 'unauthenticated' });
  });
});

describe('the credentials of a viewer', () => {
  it('is in no log line, event or table', async () => {
    const computerId = bed.computer();
    const { path } = await bed.session(computerId);
    const own = browser();
    const { json, headers } = await own.ticket(path);
    const cookie = headers.get('set-cookie')?.split(';', 1)[0]?.split('=')[1] ?? '';
    await connect(path, own);
    const tables = await Promise.all(
      ['access_tickets', 'viewer_browsers', 'viewer_connections', 'viewer_sessions_v1', 'es_event'].map((table) =>
        database().query(`select t::text as text from ${table} t`),
      ),
    );
    const everything = JSON.stringify([bed.server.logLines, tables]).toLowerCase();
    for (const secret of [path.split('/')[2] ?? '', json.ticket as string, cookie]) {
      expect(secret.length).toBeGreaterThan(40);
      expect(everything).not.toContain(secret.toLowerCase());
    }
    expect(everything).toContain(createHash('sha256').update(cookie).digest('hex'));
  });
});
