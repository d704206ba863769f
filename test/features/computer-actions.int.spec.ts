import { ComputerContainers } from '../support/computer-containers.ts';
import type { FakeRfbServer } from '../support/fake-rfb-server.ts';

let computers: ComputerContainers;
let computerId: string;
let desktop: FakeRfbServer;

beforeAll(async () => {
  computers = await ComputerContainers.start();
  ({ computerId, desktop } = await computers.awake('ana'));
});
afterAll(() => computers?.close());

const act = (json: unknown, query = '') => computers.bed.ask('POST', `/${computerId}/actions${query}`, { json });
const look = (query = '', headers: Record<string, string> = {}) =>
  computers.bed.ask('GET', `/${computerId}/screenshot${query}`, { headers });
const PNG = '89504e470d0a1a0a';

/** Returns a drag over so many points, of which the last two hundred are those of other drags, too. */
function drag(points: number): object {
  return { type: 'drag', path: Array.from({ length: points }, (_, at) => ({ x: at % 200, y: (at % 200) >> 1 })), keys: ['SHIFT'] };
}

/** Fetches the bytes of a picture. */
async function bytesOf(query = ''): Promise<{ headers: Headers; bytes: Buffer }> {
  const url = `${computers.server.url}/api/v1/computers/${computerId}/screenshot${query}`;
  const response = await fetch(url, { headers: { authorization: `Bearer mk_${computers.bed.accountId}_computers` } });
  return { headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

describe('POST /computers/{id}/actions', () => {
  it('answers with what was done, where the pointer is and the picture at the end', async () => {
    const { status, json } = await act({
      actions: [{ action: 'left_click', coordinate: [100, 200] }, { action: 'cursor_position' }],
      screenshot: { format: 'jpeg', delay_ms: 0 },
    });
    expect(status).toBe(200);
    expect(json).toEqual({
      computer_id: computerId,
      status: 'awake',
      ok: true,
      completed: 2,
      results: [
        { index: 0, action: 'left_click', ok: true },
        { index: 1, action: 'cursor_position', ok: true, x: 100, y: 200 },
      ],
      cursor: { x: 100, y: 200 },
      screenshot: { format: 'jpeg', width: 640, height: 480, data: expect.any(String) },
      duration_ms: expect.any(Number),
    });
    expect(
      Buffer.from(json.screenshot.data as string, 'base64')
        .subarray(0, 2)
        .toString('hex'),
    ).toBe('ffd8');
  });

  it('refuses an action with its place and field, and presses nothing', async () => {
    const before = desktop.events.length;
    const { status, json } = await act({
      actions: [
        { action: 'key', text: 'a' },
        { action: 'mouse_move', coordinate: [640, 0] },
      ],
    });
    expect({ status, code: json.code, errors: json.errors }).toEqual({
      status: 400,
      code: 'coordinate_out_of_bounds',
      errors: [{ index: 1, field: 'coordinate', message: 'is outside of the display of 640x480 pixels' }],
    });
    expect(await act({ action: 'key', text: 'nokey' })).toMatchObject({ status: 400, json: { code: 'unknown_key' } });
    expect(await act({ action: 'dance' })).toMatchObject({ status: 400, json: { code: 'invalid_action' } });
    expect(await act([])).toMatchObject({ status: 400, json: { code: 'invalid_action' } });
    const long = Array.from({ length: 3 }, () => ({ action: 'wait', duration: 60 }));
    expect(await act({ actions: long })).toMatchObject({ status: 400, json: { code: 'batch_too_long' } });
    expect(desktop.events).toHaveLength(before);
  });

  it('reports an action that failed, and that the ones before it were done', async () => {
    desktop.onEvent = (event) => {
      if (event === 'key 62 down') desktop.hangUp();
    };
    expect(
      await act({
        actions: [
          { action: 'key', text: 'a' },
          { action: 'key', text: 'b' },
        ],
      }),
    ).toMatchObject({
      status: 200,
      json: { ok: false, completed: 1, results: [{ ok: true }, { index: 1, ok: false, error: { code: 'desktop_unreachable' } }] },
    });
    desktop.onEvent = () => undefined;
  });

  it('accepts the largest allowed batch: 50 drags of 200 points each', async () => {
    const before = desktop.events.length;
    const { status, json } = await act({ actions: Array.from({ length: 50 }, () => drag(200)), screenshot: { delay_ms: 0 } });
    expect({ status, ok: json.ok, completed: json.completed }).toEqual({ status: 200, ok: true, completed: 50 });
    expect(json.cursor).toEqual({ x: 199, y: 99 });
    expect(desktop.events.length - before).toBeGreaterThan(50 * 199 * 10);
  }, 120_000);

  it.each([
    ['too many actions', Array.from({ length: 51 }, () => ({ type: 'wait' })), null],
    ['far too many actions', Array.from({ length: 5_000 }, () => ({ type: 'wait' })), null],
    ['a path that is too long', [{ type: 'wait' }, drag(201)], 1],
    ['a path that is far too long', [{ type: 'wait' }, drag(5_000)], null],
  ])('refuses %s as it refuses any malformed batch', async (_, actions, index) => {
    const before = desktop.events.length;
    const { status, json } = await act({ actions });
    expect({ status, code: json.code }).toEqual({ status: 400, code: 'invalid_action' });
    expect(json.errors).toEqual([{ index, field: expect.any(String), message: expect.any(String) }]);
    expect(desktop.events).toHaveLength(before);
  });

  it('refuses a body of more than a megabyte', async () => {
    const actions = Array.from({ length: 50 }, () => ({ action: 'type', text: '字'.repeat(7_500) }));
    expect(await act({ actions })).toMatchObject({ status: 413, json: { code: 'payload_too_large' } });
  });

  it('needs the scope, an id that is one, and a computer of the account', async () => {
    const { server } = computers;
    const path = `/api/v1/computers/${computerId}/actions`;
    const json = { action: 'key', text: 'a' };
    expect(await server.request('POST', path, { json, credential: `mk_${computers.bed.accountId}_deploy` })).toMatchObject({ status: 403 });
    expect(await server.request('POST', path, { json, credential: 'mk_other_computers' })).toMatchObject({ status: 404 });
    expect(await computers.bed.ask('POST', '/nonsense/actions', { json })).toMatchObject({
      status: 404,
      json: { code: 'computer_not_found' },
    });
  });

  it('is in the history by the numbers of actions, without what was typed', async () => {
    const { status } = await act({
      actions: [
        { action: 'type', text: 'canary words' },
        { action: 'key', text: 'Return' },
      ],
    });
    expect(status).toBe(200);
    const { json, text } = await computers.bed.ask('GET', `/${computerId}/history?type=ComputerActed`);
    expect(json[0]).toMatchObject({ type: 'ComputerActed' });
    expect(text).not.toContain('canary');
  });
});

describe('GET /computers/{id}/screenshot', () => {
  it('sends a PNG that nobody keeps, and the size of the screen', async () => {
    const { headers, bytes } = await bytesOf();
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'image/png',
      'cache-control': 'no-store',
      'x-screen-width': '640',
      'x-screen-height': '480',
    });
    expect(bytes.subarray(0, 8).toString('hex')).toBe(PNG);
    expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([640, 480]);
  });

  it('sends a part, smaller, in another format and without the pointer', async () => {
    const { headers, bytes } = await bytesOf('?format=webp&quality=50&scale=0.5&region=10,20,110,60&cursor=false');
    expect(headers.get('content-type')).toBe('image/webp');
    expect(bytes.subarray(8, 12).toString()).toBe('WEBP');
    const { json } = await look('?scale=0.5&region=10,20,110,60&encoding=base64');
    expect(json).toMatchObject({ format: 'png', width: 50, height: 20, screen: { width: 640, height: 480 } });
  });

  it('answers with JSON if that is asked for', async () => {
    for (const answer of [await look('?encoding=base64'), await look('', { accept: 'application/json' })]) {
      expect(answer.json).toEqual({
        format: 'png',
        width: 640,
        height: 480,
        screen: { width: 640, height: 480 },
        data: expect.any(String),
        taken_at: expect.stringMatching(/^\d{4}-.*Z$/),
      });
      expect(answer.headers.get('cache-control')).toBe('no-store');
    }
  });

  it.each([
    ['?region=0,0,641,10', 'coordinate_out_of_bounds'],
    ['?region=10,10,10,20', 'invalid_request'],
    ['?region=1,2,3', 'invalid_request'],
    ['?scale=2', 'invalid_request'],
    ['?quality=0', 'invalid_request'],
    ['?format=gif', 'invalid_request'],
    ['?cursor=maybe', 'invalid_request'],
    ['?wake=', 'invalid_request'],
  ])('refuses %s', async (query, code) => {
    expect(await look(query)).toMatchObject({ status: 400, json: { code } });
  });
});

describe('POST /computers/{id}/exec', () => {
  it('runs a command and answers with its output', async () => {
    const answer = await computers.bed.ask('POST', `/${computerId}/exec`, { json: { command: 'echo $((6 * 7)); echo oh >&2; exit 3' } });
    expect(answer).toMatchObject({
      status: 200,
      json: { exitCode: 3, stdout: '42\n', stderr: 'oh\n', timedOut: false, truncated: false },
    });
  });

  it('runs it once under one Idempotency-Key', async () => {
    const once = () =>
      computers.bed.ask('POST', `/${computerId}/exec`, {
        json: { command: 'echo x >> once.txt; cat once.txt' },
        headers: { 'idempotency-key': 'once' },
      });
    const [first, second] = [await once(), await once()];
    expect([first.json.stdout, second.json.stdout, second.headers.get('idempotency-replayed')]).toEqual(['x\n', 'x\n', 'true']);
  });
});

describe('the files of a computer', () => {
  const file = (path: string) => `/${computerId}/files?path=${encodeURIComponent(path)}`;

  it('are stored as the body or a form, replaced, listed and sent', async () => {
    const made = await computers.bed.ask('PUT', file('notes/übung.txt'), { body: 'first', headers: { 'content-type': 'text/plain' } });
    expect(made).toMatchObject({ status: 201, json: { ok: true, name: 'übung.txt', size: 5 } });
    const form = new FormData();
    form.set('file', new File(['second!'], 'ignored.txt'));
    const response = new Response(form);
    const body = Buffer.from(await response.arrayBuffer());
    const headers = { 'content-type': response.headers.get('content-type') ?? '' };
    expect(await computers.bed.ask('PUT', file('notes/übung.txt'), { body, headers })).toMatchObject({ status: 200, json: { size: 7 } });
    const { json } = await computers.bed.ask('GET', `/${computerId}/files/list?path=notes`);
    expect(json.entries).toEqual([{ name: 'übung.txt', isDir: false, size: 7, mtime: expect.any(Number) }]);
    const sent = await computers.bed.ask('GET', file('notes/übung.txt'));
    expect([sent.status, sent.text]).toEqual([200, 'second!']);
    expect(sent.headers.get('content-disposition')).toMatch(/^attachment;.*%C3%BCbung\.txt/);
    const part = await computers.bed.ask('GET', file('notes/übung.txt'), { headers: { range: 'bytes=0-2' } });
    expect([part.status, part.text]).toEqual([206, 'sec']);
  });

  it('can be run if the caller asks for that', async () => {
    const put = { body: '#!/bin/sh\necho ran', headers: { 'content-type': 'text/plain' } };
    expect(await computers.bed.ask('PUT', `${file('run.sh')}&executable=true`, put)).toMatchObject({ status: 201 });
    const { json } = await computers.bed.ask('POST', `/${computerId}/exec`, { json: { command: './run.sh' } });
    expect(json).toMatchObject({ exitCode: 0, stdout: 'ran\n' });
  });

  it('are refused outside of the home, and not found', async () => {
    const outside = await computers.bed.ask('PUT', file('/etc/passwd'), { body: 'x', headers: { 'content-type': 'text/plain' } });
    expect(outside).toMatchObject({ status: 403, json: { code: 'path_outside_volume' } });
    expect(await computers.bed.ask('GET', file('nothing.txt'))).toMatchObject({ status: 404, json: { code: 'file_not_found' } });
  });

  it('are at most 100 MB, whatever size the body declares', async () => {
    const { server } = computers;
    const response = await fetch(`${server.url}/api/v1/computers${file('large.bin')}`, {
      method: 'PUT',
      headers: { authorization: `Bearer mk_${computers.bed.accountId}_computers`, 'content-type': 'application/octet-stream' },
      // Its length is not announced.
      body: ReadableStream.from(Array.from({ length: 101 }, () => new Uint8Array(1 << 20))),
      duplex: 'half',
    }).catch((error: unknown) => error);
    // The service may cut a sender that goes on; nothing is kept in either case.
    if (response instanceof Response) expect(response.status).toBe(413);
    expect(await computers.bed.ask('GET', file('large.bin'))).toMatchObject({ status: 404 });
  });
});

describe('a computer that sleeps', () => {
  it('is not woken by a call with wake=false', async () => {
    const { computerId: asleep } = await computers.awake('ben');
    await computers.bed.record(asleep, {
      type: 'SleepComputer',
      accountId: computers.bed.accountId,
      depth: 'stopped',
      reason: 'requested',
      deadlineAt: new Date(Date.now() + 60_000).toISOString(),
    });
    await computers.bed.record(asleep, { type: 'RecordSlept', depth: 'stopped' });
    const refused = { status: 409, json: { code: 'computer_asleep' } };
    const { bed } = computers;
    const query = '?wake=false';
    expect(await bed.ask('POST', `/${asleep}/actions${query}`, { json: { type: 'wait' } })).toMatchObject(refused);
    expect(await bed.ask('GET', `/${asleep}/screenshot${query}`)).toMatchObject(refused);
    expect(await bed.ask('POST', `/${asleep}/exec${query}`, { json: { command: 'true' } })).toMatchObject(refused);
    expect(await bed.ask('GET', `/${asleep}/files${query}&path=x`)).toMatchObject(refused);
    expect(await bed.ask('GET', `/${asleep}/files/list${query}`)).toMatchObject(refused);
    const put = { body: 'x', headers: { 'content-type': 'text/plain' } };
    expect(await bed.ask('PUT', `/${asleep}/files${query}&path=x`, put)).toMatchObject(refused);
  });
});
