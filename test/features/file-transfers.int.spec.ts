import { createHash, randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { Readable } from 'node:stream';

import { extract } from 'tar-stream';

import { file, FileCaller, problem, query, type Field } from '../support/file-caller.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';
import { until } from '../support/until.ts';

const MIB = 1_048_576;

let talk: ChatFixture;
let files: FileCaller;
let root: string;

beforeAll(async () => {
  talk = await startChatFixture({});
  files = new FileCaller(talk);
  root = (await files.list()).json.root as string;
});
afterAll(() => talk?.server.close());

describe('a download', () => {
  it('holds every byte, with headers that let no browser run it', async () => {
    await files.write('page.html', '<script>alert(1)</script>');
    const response = await files.download(`${root}/page.html`);
    expect(await response.text()).toBe('<script>alert(1)</script>');
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-length': '25',
      'content-type': 'text/html; charset=utf-8',
      'content-disposition': 'attachment; filename="page.html"',
      'content-security-policy': 'sandbox',
      'x-content-type-options': 'nosniff',
      'accept-ranges': 'bytes',
    });
  });

  it('keeps any name', async () => {
    for (const name of ['a "quoted".txt', 'line\r\nbreak', 'ünïcode ☃', "it's (1)%41;*", '-rf', ' ']) {
      expect((await files.write(`names/${name}`, name)).status).toBe(200);
      const response = await files.download(`names/${name}`);
      expect(await response.text()).toBe(name);
      const disposition = response.headers.get('content-disposition') ?? '';
      const whole = /filename\*=UTF-8''(.+)$/.exec(disposition)?.[1];
      expect(whole === undefined ? /filename="(.*)"$/.exec(disposition)?.[1] : decodeURIComponent(whole)).toBe(name);
    }
    expect((await files.namesIn('names')).toSorted()).toHaveLength(6);
  });

  it('of a part continues where an earlier one was interrupted, if the file has not changed', async () => {
    await files.write('part', '0123456789');
    const etag = await until('the file’s validator is strong', async () => {
      const tag = (await files.download('part', {}, 'HEAD')).headers.get('etag') ?? '';
      return tag.startsWith('W/') ? undefined : tag;
    });
    const part = await files.download('part', { range: 'bytes=4-', 'if-range': etag });
    expect([part.status, part.headers.get('content-range'), part.headers.get('content-length'), await part.text()]).toEqual([
      206,
      'bytes 4-9/10',
      '6',
      '456789',
    ]);
    expect(await (await files.download('part', { range: 'bytes=-3' })).text()).toBe('789');
    expect(await (await files.download('part', { range: 'bytes=2-2' })).text()).toBe('2');
    const beyond = await files.download('part', { range: 'bytes=10-' });
    expect([beyond.status, beyond.headers.get('content-range'), ((await beyond.json()) as { code: string }).code]).toEqual([
      416,
      'bytes */10',
      'range_not_satisfiable',
    ]);
    await files.write('part', 'abcdefghijk');
    const whole = await files.download('part', { range: 'bytes=4-', 'if-range': etag });
    expect([whole.status, await whole.text()]).toEqual([200, 'abcdefghijk']);
  });

  it('can be asked for its headers alone', async () => {
    await files.write('head', 'x'.repeat(1_000));
    const response = await files.download('head', {}, 'HEAD');
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '1000', '']);
  });

  it('of a directory is a tar of it', async () => {
    await files.write('dir/a', 'one');
    await files.write('dir/sub/b', 'two');
    const response = await files.download('dir');
    expect([response.headers.get('content-type'), response.headers.get('content-disposition')]).toEqual([
      'application/x-tar',
      'attachment; filename="dir.tar"',
    ]);
    const packed: Record<string, string> = {};
    for await (const entry of Readable.fromWeb(response.body as never).pipe(extract())) {
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      if (entry.header.type === 'file') packed[entry.header.name.replace(/^\.\//, '')] = Buffer.concat(chunks).toString();
    }
    expect(packed).toEqual({ 'dir/a': 'one', 'dir/sub/b': 'two' });
  });

  it('of more than 100 MB is refused at once, however large the file says it is', async () => {
    await files.run('truncate -s 1T $MOORING_VOLUME/sparse; truncate -s 104857601 $MOORING_VOLUME/over');
    for (const path of ['sparse', 'over']) expect(await (await files.download(path)).json()).toMatchObject({ code: 'payload_too_large' });
    await files.remove('sparse');
    await files.remove('over');
  });

  it('ends with its caller, and the agent may sleep again', async () => {
    await files.run('head -c 90000000 /dev/zero > $MOORING_VOLUME/zeros');
    const caller = new AbortController();
    const response = await fetch(`${talk.server.url}${files.address('download')}${query('zeros')}`, {
      headers: { authorization: 'Bearer mk_acme' },
      signal: caller.signal,
    });
    expect(response.status).toBe(200);
    caller.abort();
    await until('the agent sleeps', async () =>
      (await talk.ask('POST', `/api/agents/${talk.agentId}/sleep`)).json.status === 'sleeping' ? true : undefined,
    );
    await files.remove('zeros');
  });
});

describe('an upload', () => {
  it('lands in exactly the directory that it names, wherever in the form that stands, and replaces a file of its name', async () => {
    expect(await files.upload(['dest_dir', `${root}/up`], file('a.txt', 'one'))).toMatchObject({
      status: 200,
      json: { ok: true, path: `${root}/up/a.txt`, name: 'a.txt', size: 3 },
    });
    expect((await files.upload(file('a.txt', 'other'), ['dest_dir', 'up'])).json).toEqual({
      ok: true,
      path: `${root}/up/a.txt`,
      name: 'a.txt',
      size: 5,
    });
    expect([await files.textOf('up/a.txt'), await files.namesIn('up')]).toEqual(['other', ['a.txt']]);
  });

  it('without a directory is stored in the inbox, under another name if its own is taken', async () => {
    for (const path of ['report.tar.gz', 'report-2.tar.gz', 'report-3.tar.gz'])
      expect((await files.upload(file('report.tar.gz', path))).json).toMatchObject({
        path: `${root}/inbox/${path}`,
        name: 'report.tar.gz',
      });
    expect(await files.textOf('inbox/report.tar.gz')).toBe('report.tar.gz');
  });

  it('without a directory is told to the agent in its latest conversation, with the text that came along', async () => {
    const { json: chat } = await talk.chat('echo before the file');
    const uploaded = await files.upload(['message', 'have a look'], ['file', new Blob(['plan'], { type: 'text/plain' }), 'plan.txt']);
    expect(uploaded).toMatchObject({ status: 200, json: { path: `${root}/inbox/plan.txt` } });
    const told = await until('the agent is told', async () =>
      (await talk.messages(talk.agentId)).find(
        ({ channel, attachments }) => channel === 'attachment' && JSON.stringify(attachments).includes('plan'),
      ),
    );
    expect(told).toMatchObject({
      conversation_id: chat.conversation_id,
      text: 'have a look',
      attachments: [{ path: `${root}/inbox/plan.txt`, name: 'plan.txt', size: 4, content_type: 'text/plain' }],
    });
    expect(JSON.stringify(await talk.messages(talk.agentId))).not.toContain('a.txt');
  });

  it('uses only the last part of its name', async () => {
    for (const name of ['../../../etc/passwd', '/etc/passwd', '..\\passwd'])
      expect((await files.upload(['dest_dir', 'names-up'], file(name, 'x'))).json).toMatchObject({ name: 'passwd' });
    expect(await files.namesIn('names-up')).toEqual(['passwd']);
    for (const name of ['..', '.', 'x'.repeat(256), '.mooring-unfinished-x'])
      expect(await files.upload(file(name, 'x'))).toMatchObject({ status: 400, json: { code: 'invalid_request' } });
  });

  it('of 100 MB arrives as it was sent; with one byte more it is refused, and there is no file', async () => {
    const bytes = randomBytes(100 * MIB);
    expect((await files.upload(['dest_dir', 'big'], file('whole', bytes))).json).toMatchObject({ ok: true, size: 100 * MIB });
    const hash = createHash('sha256');
    for await (const chunk of (await files.download('big/whole')).body ?? []) hash.update(chunk);
    expect(hash.digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'));
    await files.remove('big/whole');
    expect(await files.upload(['dest_dir', 'big'], file('over', Buffer.concat([bytes, Buffer.alloc(1)])))).toMatchObject(
      problem(413, 'payload_too_large'),
    );
    expect((await files.run('ls -A $MOORING_VOLUME/big; ls -A $MOORING_VOLUME | grep unfinished')).stdout).toBe('');
  });

  it('that is interrupted leaves nothing', async () => {
    const before = (await files.recorded()).length;
    const { host, port } = new URL(talk.server.url) as unknown as { host: string; port: string };
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      `POST ${files.address('upload')} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer mk_acme\r\ncontent-length: 1000000\r\n` +
        'content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="half"\r\n\r\n' +
        'x'.repeat(500_000),
    );
    await until('the upload has begun', async () => ((await files.recorded()).length > before ? true : undefined));
    socket.destroy();
    const end = await until('the end is recorded', async () => (await files.recorded())[before + 1]);
    expect(end).toMatchObject({ type: 'FileChangeFailed', data: { failure: 'canceled' } });
    expect((await files.run('ls -A $MOORING_VOLUME $MOORING_VOLUME/inbox | grep -e unfinished -e half')).stdout).toBe('');
  });

  it('is refused for a form that is wrong, also after its file has come, and then there is no file', async () => {
    const cases: [status: number, code: string, fields: Field[]][] = [
      [400, 'invalid_request', [['message', 'no file']]],
      [400, 'invalid_request', [file('wrong', 'x'), ['other', 'x']]],
      [400, 'invalid_request', [file('wrong', 'x'), file('wrong', 'x')]],
      [400, 'invalid_request', [file('wrong', 'x'), ['dest_dir', '']]],
      [400, 'invalid_request', [file('wrong', 'x'), ['dest_dir', 'up'], ['message', 'x']]],
      [400, 'invalid_request', [['dest_dir', 'a\0b'], file('wrong', 'x')]],
      [403, 'path_outside_volume', [file('wrong', 'x'), ['dest_dir', '/etc']]],
      [403, 'path_outside_volume', [['dest_dir', '../..'], file('wrong', 'x')]],
    ];
    for (const [status, code, fields] of cases) expect(await files.upload(...fields)).toMatchObject({ status, json: { code } });
    expect(await files.ask('POST', 'upload', { file: 'x' })).toMatchObject(problem(415, 'unsupported_media_type'));
    expect((await files.run('find $MOORING_VOLUME -name "*wrong*" -o -name "*unfinished*"')).stdout).toBe('');
  });

  it('with an Idempotency-Key stores one file', async () => {
    const once = () => files.uploadWith({ 'idempotency-key': 'upload-once' }, file('once', 'x'));
    const [first, second] = [await once(), await once()];
    expect([first.status, second.json, second.headers.get('idempotency-replayed')]).toEqual([200, first.json, 'true']);
    expect((await files.namesIn('inbox')).filter((name) => name.startsWith('once'))).toEqual(['once']);
  });
});
