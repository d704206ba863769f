import { file, FileCaller, problem } from '../support/file-caller.ts';
import { startChatFixture, type ChatFixture } from '../support/chat-fixture.ts';

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
afterEach(() => jest.restoreAllMocks());

describe('the files of an agent', () => {
  it('are listed with size and time, from the volume’s root or any directory in it', async () => {
    await files.write('list/a.txt', 'hello');
    await files.mkdir('list/sub');
    const { status, json } = await files.list('list');
    expect([status, json.root, json.path, json.truncated]).toEqual([200, root, `${root}/list`, false]);
    expect(json.entries).toEqual([
      { name: 'a.txt', isDir: false, size: 5, mtime: expect.any(Number) },
      { name: 'sub', isDir: true, size: expect.any(Number), mtime: expect.any(Number) },
    ]);
    expect(Math.abs(json.entries[0].mtime - Date.now() / 1_000)).toBeLessThan(600);
    expect((await files.list(`${root}/list`)).json.path).toBe(`${root}/list`);
    expect((await files.list()).json.path).toBe(root);
  });

  it('are written whole, with the directories above them, and the agent sees what was written', async () => {
    expect(await files.write('new/deep/er.txt', 'héllo')).toMatchObject({
      status: 200,
      json: { path: `${root}/new/deep/er.txt`, size: 6, created: true },
    });
    expect((await files.write(`${root}/new/deep/er.txt`, 'again')).json).toEqual({
      path: `${root}/new/deep/er.txt`,
      size: 5,
      created: false,
    });
    expect((await files.run('cat $MOORING_VOLUME/new/deep/er.txt')).stdout).toBe('again');
    expect((await files.write('empty', '')).json).toMatchObject({ size: 0 });
    expect(await files.textOf('empty')).toBe('');
  });

  it('may be 1 MB when they are written as JSON, and no more', async () => {
    expect((await files.write('large', 'x'.repeat(1_000_000))).json).toMatchObject({ size: 1_000_000 });
    expect(await files.write('large', 'x'.repeat(MIB + 1))).toMatchObject(problem(413, 'payload_too_large'));
  });

  it('have directories, which are made with or without those above', async () => {
    expect(await files.mkdir('d/e/f')).toMatchObject({ status: 201, json: { path: `${root}/d/e/f`, created: true } });
    expect(await files.mkdir('d/e/f')).toMatchObject({ status: 201, json: { created: false } });
    expect(await files.mkdir('no/such/parent', false)).toMatchObject(problem(404, 'file_not_found'));
    await files.write('d/file', 'x');
    expect(await files.mkdir('d/file')).toMatchObject(problem(409, 'file_exists'));
  });

  it('are moved, but never onto something', async () => {
    await files.write('m/from', 'moved');
    await files.write('m/taken', 'stays');
    expect(await files.move('m/from', 'm/taken')).toMatchObject(problem(409, 'file_exists'));
    expect(await files.move('m/from', 'm/to')).toMatchObject({ status: 200, json: { from: `${root}/m/from`, to: `${root}/m/to` } });
    expect(await files.move('m/from', 'm/else')).toMatchObject(problem(404, 'file_not_found'));
    expect([await files.textOf('m/to'), await files.textOf('m/taken')]).toEqual(['moved', 'stays']);
    expect(await files.move('.', 'm/root')).toMatchObject(problem(403, 'volume_root_protected'));
  });

  it('are deleted with all that is in them, but for the root', async () => {
    await files.write('gone/a/b', 'x');
    expect((await files.remove('gone')).status).toBe(204);
    expect(await files.remove('gone')).toMatchObject(problem(404, 'file_not_found'));
    for (const path of ['.', '/', root, `${root}/`, 'gone/..', './/.']) expect([403, 404]).toContain((await files.remove(path)).status);
    expect(await files.remove(root)).toMatchObject(problem(403, 'volume_root_protected'));
    expect(await files.list()).toMatchObject({ status: 200 });
  });

  it('wake a sleeping agent, which the response says', async () => {
    const sleep = async () => expect((await talk.ask('POST', `/api/agents/${talk.agentId}/sleep`)).json.status).toBe('sleeping');
    const calls: (() => Promise<{ headers: Headers }>)[] = [
      () => files.list(),
      () => files.write('awake', 'x'),
      () => files.download('awake'),
      () => files.upload(file('awake', 'x')),
      () => files.mkdir('awake-too'),
      () => files.move('awake-too', 'awake-now'),
      () => files.remove('awake-now'),
    ];
    for (const call of calls) {
      await sleep();
      expect((await call()).headers.get('x-agent-woken')).toBe('true');
    }
    expect((await files.list()).headers.get('x-agent-woken')).toBeNull();
  });
});

describe('a path', () => {
  it('that leads out of the volume is refused, be it through links', async () => {
    await files.run('cd $MOORING_VOLUME; ln -s /etc etc; ln -s / all; ln -s .. up-one; ln -s loop loop; mkdir -p real; ln -s real inside');
    for (const path of ['/etc/passwd', '../x', 'etc/x', 'all/tmp/x', 'up-one/x', '../../../../etc/x', `${root}/../x`, 'real/../../x']) {
      expect(await files.write(path, 'x')).toMatchObject(problem(403, 'path_outside_volume'));
      expect(await files.mkdir(path)).toMatchObject(problem(403, 'path_outside_volume'));
      expect(await files.move('real', path)).toMatchObject(problem(403, 'path_outside_volume'));
    }
    for (const path of ['/etc', '..', 'etc', 'all', 'up-one'])
      expect(await files.list(path)).toMatchObject(problem(403, 'path_outside_volume'));
    expect((await files.write('inside/x', 'x')).json.path).toBe(`${root}/real/x`);
  });

  it('never makes the service fail, whatever its form', async () => {
    const strange = [
      '%2e%2e/x',
      '..%2fx',
      '．．/x',
      'a/./../../x',
      '....//x',
      '\\..\\x',
      '~/x',
      '$HOME',
      '`id`',
      '-rf',
      'x'.repeat(300),
      'x/'.repeat(2_500),
      '/proc/self/environ',
      '/dev/zero',
      '//',
      'loop/x',
      ' ',
      '\u202e',
      '\r\nx: y',
      '*',
    ];
    for (const path of strange) {
      const answers = [
        await files.list(path),
        await files.write(path, 'x'),
        await files.mkdir(path),
        await files.move(path, 'moved-strange'),
        await files.remove(path),
        await files.remove('moved-strange'),
      ];
      for (const { status } of answers) expect([path, status, status < 500]).toEqual([path, status, true]);
      expect([path, (await files.download(path)).status < 500]).toEqual([path, true]);
    }
    for (const raw of ['..%2f..%2fetc', '%2e%2e%2f%2e%2e%2fetc', '%252e%252e%252fetc', '%c0%ae%c0%ae/etc', '%00', 'a%00b', '%ff%fe']) {
      const { status } = await talk.server.request('GET', `${files.address('list')}?path=${raw}`, { credential: 'mk_acme' });
      expect([raw, status >= 400 && status < 500]).toEqual([raw, true]);
    }
  });

  it('that is no path is a bad request, by its name', async () => {
    for (const path of ['', 'a\0b', 'x'.repeat(5_000)]) {
      for (const answer of [await files.list(path), await files.remove(path)])
        expect(answer).toMatchObject({ status: 400, json: { errors: [{ field: 'path' }] } });
      expect(await files.mkdir(path)).toMatchObject(problem(400, 'invalid_request'));
    }
    expect(await files.ask('GET', 'download')).toMatchObject({ status: 400, json: { errors: [{ field: 'path' }] } });
    expect(await files.ask('PUT', 'write', { path: 'x' })).toMatchObject({ status: 400, json: { errors: [{ field: 'content' }] } });
    expect(await files.ask('POST', 'move', {})).toMatchObject({ status: 400, json: { errors: [{ field: 'from' }, { field: 'to' }] } });
  });

  it('to what is no file is refused', async () => {
    await files.run('mkfifo $MOORING_VOLUME/fifo');
    expect((await files.download('fifo')).status).toBe(400);
    expect(await files.write('fifo', 'x')).toMatchObject(problem(400, 'invalid_request'));
    await files.mkdir('a-directory');
    expect(await files.write('a-directory', 'x')).toMatchObject(problem(400, 'invalid_request'));
    await files.write('a-file', 'x');
    expect(await files.list('a-file')).toMatchObject(problem(400, 'invalid_request'));
    expect((await files.download('no-such-file')).status).toBe(404);
  });
});

describe('calls to files that are refused', () => {
  it('are those without the scope, and those to another account’s agent, as if there were none', async () => {
    expect(await files.list(undefined, 'mk_other')).toMatchObject(problem(404, 'agent_not_found'));
    expect(await files.write('x', 'x', 'mk_other')).toMatchObject(problem(404, 'agent_not_found'));
    expect(await files.write('x', 'x', 'mk_acme_provision')).toMatchObject(problem(403, 'insufficient_scope'));
    expect(await files.list(undefined, 'mk_acme_provision')).toMatchObject({ status: 200 });
  });

  it('are those while the container engine is away, and nothing is written', async () => {
    const before = (await files.recorded()).length;
    jest.spyOn(talk.runtime.inner, 'available').mockResolvedValue(false);
    expect(await files.write('x', 'x')).toMatchObject(problem(503, 'runtime_unavailable'));
    expect(await files.recorded()).toHaveLength(before);
  });

  it('are those to a stopped agent', async () => {
    const agent = `/api/agents/${talk.agentId}`;
    expect((await talk.ask('POST', `${agent}/stop`)).json.status).toBe('stopped');
    expect(await files.list()).toMatchObject(problem(409, 'agent_unavailable'));
    expect(await files.upload(file('x', 'x'))).toMatchObject({ status: 409, json: { code: 'agent_unavailable' } });
    expect((await talk.ask('POST', `${agent}/start`)).json.status).toBe('active');
  });
});

describe('the log entries of an agent’s files', () => {
  it('contain who changed or read which kind of entry, but neither names nor contents', async () => {
    const before = (await files.recorded()).length;
    await files.write('canary-name', 'canary content');
    await files.textOf('canary-name');
    await files.move('canary-name', 'canary-other');
    await files.upload(['dest_dir', 'canary-dir'], file('canary-file', 'canary'));
    await files.mkdir('canary-made');
    await files.remove('canary-made');
    await files.remove('canary-none');
    const events = (await files.recorded()).slice(before);
    expect(events.map(({ type }) => type)).toEqual([
      'FileChangeStarted',
      'FileWritten',
      'FileDownloaded',
      'FileChangeStarted',
      'FileMoved',
      'FileChangeStarted',
      'FileUploaded',
      'FileChangeStarted',
      'DirectoryCreated',
      'FileChangeStarted',
      'FileDeleted',
      'FileChangeStarted',
      'FileChangeFailed',
    ]);
    expect(events.every(({ metadata }) => metadata.actor.id === 'mk_acme')).toBe(true);
    expect(events.at(-1)?.data).toMatchObject({ failure: 'refused' });
    expect(JSON.stringify(events)).not.toContain('canary');
    expect(talk.server.logLines.join('')).not.toContain('canary');
  });
});

describe('an agent whose volume is full', () => {
  it('gets no more files', async () => {
    const agentId = await talk.deployed();
    const measure = jest.spyOn(talk.runtime.inner.files, 'measure').mockResolvedValue({ bytes: 10_240 * MIB - 10, files: 1 });
    const put = (content: string) =>
      talk.server.request('PUT', `/api/agents/${agentId}/files/write`, { credential: 'mk_acme', json: { path: 'f', content } });
    // The volume is measured while the first write is recorded.
    expect(await put('x'.repeat(11))).toMatchObject(problem(413, 'volume_full'));
    expect(measure).toHaveBeenCalledTimes(1);
    expect(await put('x'.repeat(6))).toMatchObject({ status: 200 });
    expect(await put('x'.repeat(6))).toMatchObject(problem(413, 'volume_full'));
  });
});
