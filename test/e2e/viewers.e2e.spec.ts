import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { Replicas } from '../support/replicas.ts';
import type { StartedService } from '../support/started-service.ts';
import { until } from '../support/until.ts';
import { Browser, type Viewing } from '../support/viewer-fixture.ts';

/** The time after which the other replicas notice a killed service: its lease expires after 10 s, and one of them checks every 30 s. */
const KNOWN_WITHIN_MS = 60_000;

jest.setTimeout(DESKTOP_IMAGE_MS);

describe('viewers of a computer, of which two services pass on the connections', () => {
  let replicas: Replicas;
  let computer = '';

  beforeAll(async () => {
    replicas = await Replicas.start(2, 'docker', { MOORING_COMPUTER_IMAGE: await desktopImage() });
  });
  afterAll(async () => {
    await replicas?.dispose();
  });
  beforeEach(async () => {
    const made = await replicas.at(1).call('POST', '/api/v1/computers', { end_user_id: 'ana' }, { prefer: 'wait=60' });
    computer = `/api/v1/computers/${made.body.computer_id}`;
    const { body } = await replicas.at(1).call('POST', `${computer}/wake`);
    expect(body).toMatchObject({ status: 'awake' });
  });
  afterEach(async () => {
    if (!replicas.at(0).running) await replicas.at(0).start();
    await replicas.at(1).call('DELETE', computer);
  });

  const link = async (json: object = {}, headers: Record<string, string> = {}) => {
    const { body } = await replicas.at(0).call('POST', `${computer}/viewer`, json, headers);
    return { id: body.session_id as string, path: new URL(body.url as string).pathname };
  };
  const statusOf = async (id: string) => {
    const { body } = await replicas.at(1).call<{ session_id: string; status: string }[]>('GET', `${computer}/sessions`);
    return body.find(({ session_id }) => session_id === id)?.status;
  };
  const act = () => replicas.at(1).call('POST', `${computer}/actions`, { action: 'mouse_move', coordinate: [5, 5] });
  /** Connects again and again, as a page does, until the link is dead, and returns the reason. */
  const reasonOf = (browser: Browser, path: string) =>
    until('the link is dead', async () => {
      const { status, json } = await browser.ticket(path);
      if (status === 410) return json.reason as string;
      if (json.ticket !== undefined) await browser.refused(path, json.ticket).catch(() => undefined);
      return undefined;
    });

  it('are cut off when their session is closed at the other one', async () => {
    const [one, other] = [await link(), await link({ mode: 'view' })];
    const [closed, kept] = [await connected(replicas.at(0), one.path), await connected(replicas.at(0), other.path)];
    const answer = await replicas.at(1).call('POST', `${computer}/sessions/close`, { session_id: one.id });
    expect(answer.body).toEqual({ closed: 1 });

    expect(await closed.closed).toEqual([4001, 'This session was closed.']);
    expect(kept.socket.readyState).toBe(kept.socket.OPEN);
    expect([await statusOf(one.id), await statusOf(other.id)]).toEqual(['closed', 'connected']);
    expect((await browserAt(replicas.at(0)).ticket(one.path)).json).toMatchObject({ code: 'session_closed' });
    kept.socket.close();
  });

  it('are cut off when the other one has put their computer to sleep', async () => {
    const { id, path } = await link();
    const browser = browserAt(replicas.at(0));
    const viewing = await browser.connect(path);
    expect((await replicas.at(1).call('POST', `${computer}/sleep`)).body).toMatchObject({ code: 'session_connected' });
    const slept = replicas.at(1).call('POST', `${computer}/sleep`, { force: true });
    await viewing.closed;
    // A page that connects again by itself wakes no computer.
    expect(await reasonOf(browser, path)).toBe('asleep');
    expect((await slept).body).toMatchObject({ status: 'asleep' });
    expect((await replicas.at(1).call('GET', computer)).body).toMatchObject({ status: 'asleep' });
    expect(await statusOf(id)).toBe('closed');
  });

  it('are cut off when the other one has deleted their computer', async () => {
    const { path } = await link();
    const browser = browserAt(replicas.at(0));
    const viewing = await browser.connect(path);
    expect((await replicas.at(1).call('DELETE', computer)).status).toBe(204);
    await viewing.closed;
    expect(await reasonOf(browser, path)).toBe('deleted');
  });

  it('are cut off when the key that made their links is revoked at the other one, and only they', async () => {
    const { email, password } = replicas.firstRun;
    const { session_token } = (await replicas.at(1).call('POST', '/api/auth/login', { email, password })).body;
    const bySession = { authorization: `Bearer ${session_token}` };
    const key = (await replicas.at(1).call('POST', '/api/v1/keys', { name: 'support', scopes: ['computers'] }, bySession)).body;
    const [one, other] = [await link({}, { authorization: `Bearer ${key.raw_key}` }), await link({}, bySession)];
    const browser = browserAt(replicas.at(0));
    const [ended, kept] = [await browser.connect(one.path), await connected(replicas.at(0), other.path)];
    expect((await replicas.at(1).call('DELETE', `/api/v1/keys/${key.id}`, undefined, bySession)).status).toBe(204);
    await ended.closed;
    expect(await reasonOf(browser, one.path)).toBe('revoked');
    expect([await statusOf(one.id), await statusOf(other.id)]).toEqual(['closed', 'connected']);
    expect(kept.socket.readyState).toBe(kept.socket.OPEN);
    kept.socket.close();
  });

  it('go on at the other one when theirs is killed, and leave no computer to a person who is gone', async () => {
    const { id, path } = await link({ exclusive: true, ttl_seconds: 3_600 });
    const browser = browserAt(replicas.at(0));
    const viewing = await browser.connect(path);
    await until('the other service knows of the connection', async () => ((await statusOf(id)) === 'connected' ? true : undefined));
    expect((await act()).body).toMatchObject({ code: 'human_in_control' });

    await replicas.at(0).kill();
    await viewing.closed;
    const freed = async () => ((await act()).status === 200 ? true : undefined);
    await until('nobody has control any more', freed, { everyMs: 250, timeoutMs: KNOWN_WITHIN_MS });
    expect(await statusOf(id)).toBe('disconnected');
    expect((await browserAt(replicas.at(1)).ticket(path)).json).toMatchObject({ code: 'viewer_taken' });

    const again = await browser.at(serverOf(replicas.at(1))).connect(path);
    await until('the same browser has control again', () => (again.control === true ? true : undefined));
    expect((await act()).body).toMatchObject({ code: 'human_in_control' });
    expect(await statusOf(id)).toBe('connected');
    again.socket.close();
    await until('it has let go of it', freed);
  });
});

function serverOf(replica: StartedService): ConstructorParameters<typeof Browser>[0] {
  const { url } = replica.firstRun;
  return {
    url,
    request: async (method, path, { headers = {} } = {}) => {
      const response = await fetch(`${url}${path}`, { method, headers });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, json: text === '' ? null : JSON.parse(text) };
    },
  };
}

const browserAt = (replica: StartedService) => new Browser(serverOf(replica));

const connected = (replica: StartedService, path: string): Promise<Viewing> => browserAt(replica).connect(path);
