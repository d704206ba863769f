import { ComputerContainersModule } from '../../src/features/computers/computer-containers.module.ts';
import { viewerEvents } from '../../src/features/computers/index.ts';
import { ViewedDesktopsModule } from '../../src/features/computers/viewed-desktops.module.ts';
import { ViewersModule } from '../../src/features/computers/viewers.module.ts';
import { McpModule } from '../../src/features/mcp/mcp.module.ts';
import { ComputerFixture, computerFeatures } from '../support/computer-fixture.ts';
import { DesktopContainers } from '../support/computer-containers.ts';
import { runningFeatures } from '../support/features.ts';
import { startFeatureServer } from '../support/feature-server.ts';
import { LocalRuntimeModule } from '../support/local-runtime-module.ts';
import { FakeRfbServer } from '../support/fake-rfb-server.ts';
import { ToolFixture, type ToolResult } from '../support/tool-fixture.ts';

const SIZE = { width: 640, height: 480 };
const PNG = '89504e470d0a1a0a';
const desktop = new FakeRfbServer(SIZE);
let bed: ToolFixture;
let desktops: DesktopContainers;
let key: string;
let computerId: string;

beforeAll(async () => {
  const running = runningFeatures(LocalRuntimeModule.forTest());
  const viewers = ViewersModule.of(ViewedDesktopsModule);
  const server = await startFeatureServer({
    modules: [...new Set([...running.modules, ...computerFeatures.modules, ComputerContainersModule, viewers, McpModule])],
    definitions: [...new Set([...running.definitions, ...computerFeatures.definitions, ...Object.values(viewerEvents)])],
    environment: computerFeatures.environment ?? {},
  });
  bed = new ToolFixture(server);
  desktops = new DesktopContainers(server);
  await desktops.serve(desktop);
  key = `mk_${(await ComputerFixture.open(server, 'acme', 20)).accountId}`;
  const made = await call('create_computer', { end_user_id: 'ana', display: SIZE });
  expect([made.isError, made.json.status, made.notes]).toEqual([false, 'awake', '']);
  computerId = made.json.computer_id as string;
});

afterAll(async () => {
  await call('delete_computer', { computerId });
  await bed?.close();
  await desktops?.close();
});
afterEach(() => void Object.assign(bed.times, { waitSeconds: 50, marginSeconds: 5 }));

const call = (name: string, given: Record<string, unknown> = {}): Promise<ToolResult> => bed.call(name, given, key);

/** Returns the picture of the result, and its size. */
function pictureOf({ content }: ToolResult): { mimeType: string | undefined; width: number; height: number; signature: string } {
  const pictures = content.filter(({ type }) => type === 'image');
  expect(pictures).toHaveLength(1);
  const bytes = Buffer.from(pictures[0]?.data ?? '', 'base64');
  const signature = bytes.subarray(0, 8).toString('hex');
  return { mimeType: pictures[0]?.mimeType, width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20), signature };
}

describe('a model with a key for computers', () => {
  it('gets the arguments of the tools and what they change', async () => {
    const { tools } = await (await bed.connected(key)).listTools();
    const named = new Map(tools.map((tool) => [tool.name, tool]));
    expect(named.get('act_on_computer')).toMatchObject({
      inputSchema: { type: 'object', required: ['computerId', 'actions'], properties: { actions: { type: 'array' }, screenshot: {} } },
      annotations: { readOnlyHint: false, destructiveHint: true },
    });
    expect(named.get('get_computer_screenshot')?.annotations).toMatchObject({ readOnlyHint: true });
    expect(Object.keys(named.get('get_computer_screenshot')?.inputSchema.properties ?? {})).not.toContain('encoding');
    expect(named.get('upload_computer_file')?.inputSchema).toMatchObject({ required: ['computerId', 'path', 'content'] });
    expect(named.get('delete_computer')?.annotations).toMatchObject({ destructiveHint: true });
  });

  it('sees the tools of computers if its key has the scope, and no others', async () => {
    const names = await bed.namesFor(`${key}_computers`);
    expect(names).toEqual(
      expect.arrayContaining(['create_computer', 'act_on_computer', 'get_computer_screenshot', 'run_computer_command', 'wake_computer']),
    );
    expect(names.filter((name) => name.includes('agent'))).toEqual([]);
    expect((await bed.namesFor(`${key}_manage`)).filter((name) => name.includes('computer'))).toEqual([]);
    const refused = await bed.call('get_computer_screenshot', { computerId }, `${key}_manage`);
    expect(refused).toMatchObject({ isError: true, json: { code: 'insufficient_scope', required_scopes: ['computers'] } });
  });

  it('lists its computers, and gets the computer of an end user', async () => {
    expect((await call('list_computers', { end_user_id: 'ana' })).json).toMatchObject([{ computer_id: computerId }]);
    expect((await call('create_computer', { end_user_id: 'ana' })).json).toMatchObject({ computer_id: computerId, status: 'awake' });
    expect((await call('get_computer', { computerId })).json).toMatchObject({ end_user_id: 'ana', display: SIZE });
    expect((await call('update_computer', { computerId, name: 'desk' })).json).toMatchObject({ name: 'desk' });
  });

  it('sees the screen as an image, whole or a part, and in another format', async () => {
    const whole = await call('get_computer_screenshot', { computerId });
    expect(whole.content).toHaveLength(1);
    expect(pictureOf(whole)).toEqual({ mimeType: 'image/png', ...SIZE, signature: PNG });
    const part = await call('get_computer_screenshot', { computerId, region: '10,20,110,60', scale: 0.5, cursor: false });
    expect(pictureOf(part)).toMatchObject({ width: 50, height: 20 });
    const { content } = await call('get_computer_screenshot', { computerId, format: 'webp', quality: 50 });
    expect(content).toMatchObject([{ type: 'image', mimeType: 'image/webp' }]);
    expect(await call('get_computer_screenshot', { computerId, encoding: 'base64' })).toMatchObject({
      isError: true,
      json: { errors: [{ field: 'encoding' }] },
    });
  });

  it('acts, and sees what became of it', async () => {
    const before = desktop.events.length;
    const acted = await call('act_on_computer', {
      computerId,
      actions: [
        { action: 'left_click', coordinate: [100, 200] },
        { type: 'keypress', keys: ['CTRL', 'A'] },
        { name: 'type', input: { text: 'x' } },
      ],
      screenshot: true,
    });
    expect(acted.json).toMatchObject({ ok: true, completed: 3, screenshot: { format: 'png', ...SIZE } });
    expect(acted.text).not.toContain('"data"');
    expect(acted.notes).toBe('');
    expect(pictureOf(acted)).toMatchObject({ mimeType: 'image/png', ...SIZE, signature: PNG });
    expect(desktop.events.slice(before)).toEqual(expect.arrayContaining(['pointer 100,200 1', 'key 61 down', 'key 78 down']));
  });

  it('gets the last of several pictures of a batch, and no picture if it asks for none', async () => {
    const actions = [{ action: 'screenshot' }, { action: 'zoom', region: [0, 0, 100, 50] }];
    const acted = await call('act_on_computer', { computerId, actions });
    expect(acted.json.results).toMatchObject([
      { action: 'screenshot', screenshot: SIZE },
      { action: 'zoom', screenshot: { width: 100, height: 50 } },
    ]);
    expect(pictureOf(acted)).toMatchObject({ width: 100, height: 50 });
    expect(acted.notes).toContain('Only the last of 2 pictures');
    const { content } = await call('act_on_computer', { computerId, actions: [{ action: 'cursor_position' }] });
    expect(content.map(({ type }) => type)).toEqual(['text']);
  });

  it('gets an error for a wrong action before the first one is done', async () => {
    const before = desktop.events.length;
    const refused = await call('act_on_computer', {
      computerId,
      actions: [
        { action: 'key', text: 'a' },
        { action: 'mouse_move', coordinate: [640, 0] },
      ],
    });
    expect(refused).toMatchObject({
      isError: true,
      json: { code: 'coordinate_out_of_bounds', errors: [{ index: 1, field: 'coordinate' }] },
    });
    expect(await call('act_on_computer', { computerId, actions: 'all' })).toMatchObject({
      isError: true,
      json: { code: 'invalid_action' },
    });
    expect(desktop.events.slice(before)).toEqual([]);
  });

  it('runs commands, writes files and reads them', async () => {
    const content = 'Grüße, 世界 🌍\n';
    expect((await call('upload_computer_file', { computerId, path: 'notes/a.txt', content })).json).toMatchObject({
      ok: true,
      name: 'a.txt',
    });
    expect((await call('list_computer_files', { computerId, path: 'notes' })).json.entries).toMatchObject([{ name: 'a.txt' }]);
    expect((await call('download_computer_file', { computerId, path: 'notes/a.txt' })).text).toBe(content);
    const ran = await call('run_computer_command', { computerId, command: 'cat notes/a.txt; exit 3' });
    expect(ran.json).toMatchObject({ stdout: content, exitCode: 3 });
    expect(await call('run_computer_command', { computerId, command: 'true', timeout: 90 })).toMatchObject({
      json: { errors: [{ field: 'timeout' }] },
    });
    expect((await call('upload_computer_file', { computerId, path: 'run.sh', content: 'echo ran', executable: true })).isError).toBe(false);
    expect((await call('run_computer_command', { computerId, command: ['sh', '-c', 'test -x run.sh && ./run.sh'] })).json.stdout).toBe(
      'ran\n',
    );
    expect((await call('upload_computer_file', { computerId, path: 'empty', content: '' })).json).toMatchObject({ size: 0 });
    for (const given of [{ path: 'a' }, { path: 'a', content: 7 }, { path: 'a', content: '', color: 'red' }])
      expect(await call('upload_computer_file', { computerId, ...given })).toMatchObject({
        isError: true,
        json: { code: 'invalid_request' },
      });
  });

  it('puts a computer to sleep and wakes it, while the call waits', async () => {
    expect(await call('sleep_computer', { computerId })).toMatchObject({ isError: false, json: { status: 'asleep' }, notes: '' });
    expect(await call('get_computer_screenshot', { computerId, wake: false })).toMatchObject({
      isError: true,
      json: { code: 'computer_asleep' },
    });
    expect(await call('wake_computer', { computerId })).toMatchObject({ isError: false, json: { status: 'awake' }, notes: '' });
    await call('sleep_computer', { computerId });
    expect(pictureOf(await call('get_computer_screenshot', { computerId }))).toMatchObject(SIZE);
  });

  it('gets the name of the tool to call next if a wake takes longer than a call may', async () => {
    await call('sleep_computer', { computerId });
    bed.times.waitSeconds = 0;
    const { isError, json, notes } = await call('wake_computer', { computerId });
    expect([isError, json.status]).toEqual([false, 'waking']);
    expect(notes).toContain('wake_computer');
    Object.assign(bed.times, { waitSeconds: 50 });
    expect((await call('wake_computer', { computerId })).json.status).toBe('awake');
  });

  it('creates a link for a person, lists the links and closes them', async () => {
    const { json } = await call('open_computer_viewer', { computerId, mode: 'view', label: 'support' });
    expect(json).toMatchObject({ url: expect.stringContaining('/viewer/'), mode: 'view' });
    expect((await call('list_computer_sessions', { computerId })).json).toMatchObject([{ session_id: json.session_id, status: 'pending' }]);
    expect((await call('close_computer_sessions', { computerId })).json).toEqual({ closed: 1 });
  });

  it('is shown what happened and what was used, and never what was typed', async () => {
    await call('act_on_computer', { computerId, actions: [{ action: 'type', text: 'canary' }] });
    const history = await call('list_computer_history', { computerId });
    expect((history.json as { type: string }[]).map(({ type }) => type)).toEqual(
      expect.arrayContaining(['ComputerCreated', 'ComputerActed']),
    );
    expect(history.text).not.toContain('canary');
    expect((await call('get_computer_usage', { computer_id: computerId })).json.totals.wakes).toBeGreaterThan(0);
  });
});
