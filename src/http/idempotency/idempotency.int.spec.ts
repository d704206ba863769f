import type { TestServer } from '../../../test/support/http-server.ts';
import { expectProblem, grants, positions, reached, seen, startSampleServer } from '../../../test/support/sample-server.ts';
import { Database } from '../../postgres/database/database.ts';
import { ProblemError } from '../../kernel/errors/problem-error.ts';
import { START } from '../../eventsourcing/event-store/event-store.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startSampleServer();
});
afterAll(() => server?.close());

describe('an idempotency key', () => {
  const once = (key: string, json: unknown = { name: 'x' }, credential = 'mk_manage') =>
    server.request('POST', '/t/once', { json, credential, headers: { 'idempotency-key': key } });

  beforeEach(() => {
    seen.made.length = 0;
    seen.gate = Promise.resolve();
    seen.failNext = null;
  });

  it('returns the first response to a repeat, and creates nothing twice', async () => {
    const first = await once('k1');
    expect(first.status).toBe(201);
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    const again = await once('k1');
    expect(again).toMatchObject({ status: 201, json: first.json });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(again.headers.get('x-event-position')).toBe('00000000000000000042');
    expect(seen.made).toHaveLength(1);
  });

  it('belongs to one request of one account', async () => {
    await once('k2');
    expectProblem(await once('k2', { name: 'y' }), 422, 'idempotency_key_reused');
    expect((await once('k2', { name: 'y' }, 'mk_other')).status).toBe(201);
    expect((await once('k2', { name: 'x' }, 'mk_deploy')).headers.get('idempotency-replayed')).toBe('true');
  });

  it('lets one of many concurrent calls do the work; the others get the response that it is running', async () => {
    let open = () => {};
    seen.gate = new Promise((resolve) => (open = resolve));
    const calls = Array.from({ length: 20 }, () => once('k3'));
    const refused = await Promise.race(calls);
    expectProblem(refused, 409, 'idempotency_in_progress');
    open();
    const answers = await Promise.all(calls);
    const made = answers.filter(({ status, headers }) => status === 201 && !headers.has('idempotency-replayed'));
    expect(made).toHaveLength(1);
    expect(answers.every(({ status, json }) => status === 409 || json.seed === made[0]?.json.seed)).toBe(true);
    expect(seen.made).toHaveLength(1);
  });

  it('may be used again after a refusal, with a corrected request', async () => {
    expectProblem(await once('k4', { name: 1 }), 400, 'invalid_request');
    expect((await once('k4', { name: 'ok' })).status).toBe(201);
  });

  it('leaves no row behind if its only try was refused', async () => {
    const database = server.app.get(Database, { strict: false });
    const rows = async () => (await database.query('select id from idempotency_keys')).length;
    const before = await rows();
    for (let n = 0; n < 5; n += 1) expectProblem(await once(`refused-${n}`, { name: 1 }), 400, 'invalid_request');
    expect(await rows()).toBe(before);
  });

  it('keeps its row if a try was refused after an earlier one with an internal error', async () => {
    seen.failNext = new Error('after the append');
    expectProblem(await once('k9'), 500, 'internal_error');
    seen.failNext = new ProblemError('seat_limit', 'All seats are taken.');
    expectProblem(await once('k9'), 402, 'seat_limit');
    expect((await once('k9')).status).toBe(201);
    expect(new Set(seen.made).size).toBe(1);
  });

  it('keeps its id after a try with an internal error, so that the work is not done twice', async () => {
    seen.failNext = new Error('after the append');
    expectProblem(await once('k5'), 500, 'internal_error');
    expectProblem(await once('k5', { name: 'y' }), 422, 'idempotency_key_reused');
    expect((await once('k5')).status).toBe(201);
    expect(new Set(seen.made).size).toBe(1);
    expect(seen.made).toHaveLength(2);
  });

  it('is free again after the process that claimed it died, and keeps its id', async () => {
    const database = server.app.get(Database, { strict: false });
    await once('k6');
    await database.query(`update idempotency_keys set state = 'running', answer = null, owner = gen_random_uuid() where id = $1`, [
      seen.made[0],
    ]);
    expectProblem(await once('k6'), 409, 'idempotency_in_progress');
    await database.query(`update idempotency_keys set claimed_at = now() - interval '11 seconds' where id = $1`, [seen.made[0]]);
    expect((await once('k6')).status).toBe(201);
    expect(seen.made[1]).toBe(seen.made[0]);
  });

  it('is deleted after a day, and can then be used for a new request', async () => {
    const database = server.app.get(Database, { strict: false });
    await once('k7');
    await database.query(`update idempotency_keys set created_at = now() - interval '25 hours' where id = $1`, [seen.made[0]]);
    expect((await once('k7', { name: 'new' })).status).toBe(201);
    expect(seen.made[1]).not.toBe(seen.made[0]);
  });

  it('must be printable', async () => {
    expectProblem(await once('with space'), 400, 'invalid_request');
    expectProblem(await once('x'.repeat(256)), 400, 'invalid_request');
  });

  it('leaves neither responses nor requests readable in the database', async () => {
    await once('k8', { name: 'canary-of-the-request' });
    const rows = await server.app.get(Database, { strict: false }).query('select * from idempotency_keys');
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain('canary');
  });
});

describe('reads', () => {
  it('wait for the write that the caller names, for its own last write, and for later events of its account', async () => {
    reached.length = 0;
    const read = (position?: string, credential = 'mk_none') =>
      server.request('GET', '/t/model', { credential, headers: position ? { 'x-min-event-position': position } : {} });
    grants.mk_writer = { accountId: 'writer', scopes: new Set() };
    expect((await read(undefined, 'mk_writer')).status).toBe(200);
    expect(reached).toEqual([]);
    const wrote = await server.request('POST', '/t/once', { json: { name: 'x' }, credential: 'mk_writer' });
    expect(wrote.headers.get('x-event-position')).toBe('00000000000000000042');
    positions.set('writer', { last: '00000000000000000045', written: '00000000000000000042' });
    await read(undefined, 'mk_writer');
    expect(reached.splice(0)).toEqual(['things 00000000000000000042', 'things 00000000000000000045']);
    await read('00000000000000000007', 'mk_writer');
    expect(reached.splice(0)).toEqual(['things 00000000000000000042', 'things 00000000000000000045']);
    await read('00000000000000000050', 'mk_writer');
    expect(reached).toEqual(['things 00000000000000000050']);
    positions.set('writer', { last: '9'.repeat(20), written: START });
    expect((await read(undefined, 'mk_writer')).status).toBe(200);
    positions.set('writer', { last: '9'.repeat(20), written: '9'.repeat(20) });
    expectProblem(await read(undefined, 'mk_writer'), 503, 'read_model_behind');
    expectProblem(await read('seven'), 400, 'invalid_request');
    expectProblem(await read('9'.repeat(20)), 503, 'read_model_behind');
  });
});
