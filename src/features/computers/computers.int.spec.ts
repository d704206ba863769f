import { ComputerFixture, computerFeatures } from '../../../test/support/computer-fixture.ts';
import { startFeatureServer } from '../../../test/support/feature-server.ts';
import type { TestResponse, TestServer } from '../../../test/support/http-server.ts';
import { Database } from '../../postgres/database/database.ts';
import { EventStore } from '../../eventsourcing/event-store/event-store.ts';

let server: TestServer;
let acme: ComputerFixture;

beforeAll(async () => {
  server = await startFeatureServer(computerFeatures);
  acme = await ComputerFixture.open(server, 'acme');
});
afterAll(() => server?.close());

function expectProblem(answer: TestResponse, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
}

async function eventsOf(stream: string): Promise<{ type: string; data: Record<string, unknown> }[]> {
  const events = [];
  for await (const event of server.app.get(EventStore, { strict: false }).readStream(stream)) events.push(event);
  return events;
}

const slept = { type: 'RecordSlept', depth: 'stopped' } as const;

describe('making a computer', () => {
  it('makes one for an end user, with the defaults, and finds it again', async () => {
    const made = await acme.ask('POST', '', { json: { end_user_id: 'user_42' } });
    expect(made.status).toBe(201);
    const { computer_id, created_at, ...rest } = made.json;
    expect(rest).toEqual({
      end_user_id: 'user_42',
      name: 'user_42',
      status: 'creating',
      size: 'small',
      display: { width: 1280, height: 800 },
      timezone: 'UTC',
      idle_timeout_seconds: 900,
      egress: null,
      status_message: expect.stringContaining('image'),
      root: '/home/user',
      last_active_at: null,
      awake_since: null,
      slept_at: null,
    });
    expect(created_at).toMatch(/Z$/);
    expect(made.headers.get('location')).toBe(`/api/v1/computers/${computer_id}`);
    const again = await acme.ask('POST', '', { json: { end_user_id: 'user_42', name: 'other' } });
    expect([again.status, again.json]).toEqual([200, made.json]);
    const shown = await acme.ask('GET', `/${computer_id}`);
    expect([shown.status, shown.json, shown.headers.get('etag')]).toEqual([200, made.json, '"0"']);
  });

  it('makes exactly one, however many requests for one end user come at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => acme.ask('POST', '', { json: { end_user_id: 'crowd', env_vars: { A: '1' } } })),
    );
    expect(answers.map(({ status }) => status).filter((status) => status !== 200)).toEqual([201]);
    expect(new Set(answers.map(({ json }) => json.computer_id)).size).toBe(1);
    const list = await acme.ask('GET', '?end_user_id=crowd');
    expect(list.json).toHaveLength(1);
    const events = await eventsOf(`computer-${answers[0]!.json.computer_id}`);
    expect(events.map(({ type }) => type)).toEqual(['ComputerCreated']);
  });

  it('refuses another size or screen than the computer has, and names both', async () => {
    await acme.create('sized', { size: 'medium', display: { width: 1024, height: 768 } });
    const same = await acme.ask('POST', '', { json: { end_user_id: 'sized', size: 'medium', display: { height: 768, width: 1024 } } });
    expect(same.status).toBe(200);
    const larger = await acme.ask('POST', '', { json: { end_user_id: 'sized', size: 'large' } });
    expectProblem(larger, 409, 'computer_conflict');
    expect(larger.json.detail).toContain('medium with 1024x768 pixels, not large with 1024x768');
    expectProblem(
      await acme.ask('POST', '', { json: { end_user_id: 'sized', display: { width: 1280, height: 800 } } }),
      409,
      'computer_conflict',
    );
  });

  it('gets the same response when it is repeated with its Idempotency-Key', async () => {
    const request = { json: { end_user_id: 'twice' }, headers: { 'idempotency-key': 'twice' } };
    const [first, second] = [await acme.ask('POST', '', request), await acme.ask('POST', '', request)];
    expect([second.status, second.json]).toEqual([201, first.json]);
  });

  it('is bounded by the plan, from which a deleted computer is free', async () => {
    const small = await ComputerFixture.open(server, 'small', 1);
    const first = await small.create('one');
    const refused = await small.ask('POST', '', { json: { end_user_id: 'two' } });
    expectProblem(refused, 402, 'computer_limit');
    expect(refused.json).toMatchObject({ computers: 1, computers_used: 1 });
    const [removed] = await Promise.all([small.ask('DELETE', `/${first}`), small.recordWhen(first, 'deleting', { type: 'RecordDeleted' })]);
    expect(removed.status).toBe(204);
    expect((await small.ask('POST', '', { json: { end_user_id: 'two' } })).status).toBe(201);
    expectProblem(await small.ask('GET', `/${first}`), 404, 'computer_not_found');
  });

  it('makes a new computer after the old one of the end user is gone', async () => {
    const old = await acme.create('again');
    const [, next] = await Promise.all([
      acme.ask('DELETE', `/${old}`),
      acme.recordWhen(old, 'deleting', { type: 'RecordDeleted' }).then(() => acme.create('again')),
    ]);
    expect(next).not.toBe(old);
  });

  it.each<[string, object]>([
    ['end_user_id', { end_user_id: 'a b' }],
    ['end_user_id', {}],
    ['size', { end_user_id: 'a', size: 'huge' }],
    ['display', { end_user_id: 'a', display: { width: 639, height: 480 } }],
    ['display', { end_user_id: 'a', display: { width: 640, height: 480, depth: 24 } }],
    ['display', { end_user_id: 'a', display: [640, 480] }],
    ['timezone', { end_user_id: 'a', timezone: 'Mars/Base' }],
    ['idle_timeout_seconds', { end_user_id: 'a', idle_timeout_seconds: 59 }],
    ['env_vars', { end_user_id: 'a', env_vars: { DISPLAY: ':1' } }],
    ['env_vars', { end_user_id: 'a', env_vars: { A: null } }],
    ['name', { end_user_id: 'a', name: '' }],
    ['status', { end_user_id: 'a', status: 'awake' }],
  ])('refuses a bad %s', async (field, json) => {
    const answer = await acme.ask('POST', '', { json });
    expectProblem(answer, 400, 'invalid_request');
    expect(answer.json.errors.map((error: { field: string }) => error.field)).toContain(field);
  });
});

describe('a computer', () => {
  it('is not visible to other accounts, and needs the scope computers', async () => {
    const computerId = await acme.create('private');
    const other = await ComputerFixture.open(server, 'other');
    for (const [method, path] of [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/wake'],
      ['POST', '/sleep'],
      ['GET', '/history'],
    ] as const) {
      const json = method === 'PATCH' ? { json: { name: 'x' } } : {};
      expectProblem(await other.ask(method, `/${computerId}${path}`, json), 404, 'computer_not_found');
      expectProblem(await other.ask(method, `/no-uuid${path}`, json), 404, 'computer_not_found');
      const credential = `mk_${acme.accountId}_deploy`;
      expectProblem(await acme.ask(method, `/${computerId}${path}`, { ...json, credential }), 403, 'insufficient_scope');
    }
    expect((await other.ask('GET', '')).json).toEqual([]);
  });

  it('is listed by status and end user, page by page, newest first', async () => {
    const bed = await ComputerFixture.open(server, 'lister');
    const made = [];
    for (const user of ['a', 'b', 'c']) made.unshift(await bed.create(user));
    const awake = await bed.awake('d');
    const pages: string[][] = [];
    let query: string | undefined = '?limit=2';
    while (query !== undefined) {
      const page: TestResponse = await bed.ask('GET', query);
      pages.push(page.json.map((computer: { computer_id: string }) => computer.computer_id));
      query = /computers(\?[^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    expect(pages.flat()).toEqual([awake, ...made]);
    const ids = async (search: string) => (await bed.ask('GET', search)).json.map((one: { computer_id: string }) => one.computer_id);
    expect(await ids('?status=awake')).toEqual([awake]);
    expect(await ids('?status=asleep')).toEqual([]);
    expect(await ids('?end_user_id=b')).toEqual([made[1]]);
    expectProblem(await bed.ask('GET', '?status=deleting'), 400, 'invalid_request');
  });

  it('is changed at the revision that the caller saw, and its variables are in no answer and no table in clear', async () => {
    const computerId = await acme.awake('changed', { env_vars: { TOKEN: 'canary-variable-1' } });
    const { headers, json } = await acme.ask('GET', `/${computerId}`);
    const etag = headers.get('etag') ?? '';
    const patch = { name: 'Ana’s desktop', size: 'large', idle_timeout_seconds: 0, env_vars: { TOKEN: null, OTHER: 'canary-variable-2' } };
    const changed = await acme.ask('PATCH', `/${computerId}`, { json: patch, headers: { 'if-match': etag } });
    expect(changed.json).toEqual({ ...json, name: 'Ana’s desktop', size: 'large', idle_timeout_seconds: 0 });
    const shown = await acme.ask('GET', `/${computerId}`);
    expect([shown.json, shown.headers.get('etag')]).toEqual([changed.json, changed.headers.get('etag')]);
    expectProblem(
      await acme.ask('PATCH', `/${computerId}`, { json: { name: 'x' }, headers: { 'if-match': etag } }),
      412,
      'revision_mismatch',
    );
    expect((await acme.ask('PATCH', `/${computerId}`, { json: { name: 'Ana’s desktop' } })).headers.get('etag')).toBe(
      changed.headers.get('etag'),
    );
    const database = server.app.get(Database, { strict: false });
    const tables = await database.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and has_table_privilege(oid, 'select')`,
    );
    let everything = server.logLines.join('');
    for (const { name } of tables) everything += JSON.stringify(await database.query(`select * from "${name}"`));
    expect(everything).toContain('user_42');
    expect(everything).not.toContain('canary-variable');
  });

  it('wakes and sleeps while its caller waits, and the times that it shows are the engine’s', async () => {
    const computerId = await acme.awake('sleeper');
    const fell = new Date();
    const [asleep] = await Promise.all([
      acme.ask('POST', `/${computerId}/sleep`),
      acme.recordWhen(computerId, 'going_to_sleep', { ...slept, at: fell.toISOString() }),
    ]);
    expect([asleep.status, asleep.json.status, asleep.json.awake_since]).toEqual([200, 'asleep', null]);
    expect((await acme.ask('POST', `/${computerId}/sleep`)).json).toEqual(asleep.json);
    const { state } = { state: asleep.json };
    expect(new Date(state.slept_at).getTime()).toBeGreaterThanOrEqual(fell.getTime());

    const soon = await acme.ask('POST', `/${computerId}/wake?wait=false`);
    expect([soon.status, soon.json.status]).toEqual([202, 'waking']);
    const [awake] = await Promise.all([acme.ask('POST', `/${computerId}/wake`), acme.ready(computerId)]);
    expect([awake.status, awake.json.status, awake.json.slept_at]).toEqual([200, 'awake', null]);
    expect(awake.json.awake_since).toMatch(/Z$/);
    expect((await acme.ask('POST', `/${computerId}/wake`)).json).toEqual(awake.json);
  });

  it('reports why it did not wake, and can be woken again', async () => {
    const computerId = await acme.awake('failing');
    await Promise.all([acme.ask('POST', `/${computerId}/sleep`), acme.recordWhen(computerId, 'going_to_sleep', slept)]);
    const failing = (command: Parameters<ComputerFixture['record']>[1]) =>
      Promise.all([acme.ask('POST', `/${computerId}/wake`), acme.recordWhen(computerId, 'waking', command)]).then(([answer]) => answer);
    const late = await failing({ type: 'RecordFailure', kind: 'timeout', reason: 'It was not ready in time.' });
    expectProblem(late, 504, 'desktop_timeout');
    expect(late.json.detail).toBe('It was not ready in time.');
    expect((await acme.ask('GET', `/${computerId}`)).json).toMatchObject({ status: 'error', status_message: 'It was not ready in time.' });
    const full = await failing({ type: 'RecordNoCapacity', reason: 'There is no memory.' });
    expectProblem(full, 503, 'capacity');
    expect(full.headers.get('retry-after')).toBe('10');
    expectProblem(await failing({ type: 'RecordFailure', kind: 'runtime', reason: 'The engine refused.' }), 502, 'desktop_unreachable');
    expectProblem(await acme.ask('POST', `/${computerId}/sleep`), 409, 'invalid_state');
    await acme.ask('POST', `/${computerId}/wake?wait=false`);
    await acme.ready(computerId);
    expect((await acme.ask('GET', `/${computerId}`)).json).toMatchObject({ status: 'awake', status_message: null });
  });

  it('has a history, also when it is deleted, which follows what happens', async () => {
    const computerId = await acme.awake('told');
    const acted = { type: 'RecordActed', actions: { type: 1 }, batches: 1, screenshots: 0, since: 'x', until: 'y' } as const;
    await acme.record(computerId, acted);
    const all = (await acme.ask('GET', `/${computerId}/history`)).json;
    const types = (items: { type: string }[]) => items.map(({ type }) => type);
    const expected = ['ComputerSeatTaken', 'ComputerCreated', 'ComputerImageResolved', 'ComputerWoke', 'ComputerActed'];
    expect(types(all)).toEqual(expected);
    expect(all.every((item: { computer_id: string; agent_id: null }) => item.computer_id === computerId && item.agent_id === null)).toBe(
      true,
    );
    const first = await acme.ask('GET', `/${computerId}/history?limit=2`);
    const next = /(\/history\?[^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1];
    expect(types((await acme.ask('GET', `/${computerId}${next}`)).json)).toEqual(expected.slice(2, 4));
    expect(types((await acme.ask('GET', `/${computerId}/history?type=ComputerWoke`)).json)).toEqual(['ComputerWoke']);

    const following = acme.ask('GET', `/${computerId}/history`, { headers: { accept: 'text/event-stream' } });
    await Promise.all([acme.ask('DELETE', `/${computerId}`), acme.recordWhen(computerId, 'deleting', { type: 'RecordDeleted' })]);
    const told = (await following).text;
    for (const type of [...expected, 'ComputerDeletionRequested', 'ComputerDeleted']) expect(told).toContain(`"type":"${type}"`);
    const after = await acme.ask('GET', `/${computerId}/history`);
    expect(types(after.json)).toEqual(expect.arrayContaining(['ComputerDeleted', 'ComputerSeatReleased']));
  });
});
