import type { HistoryItem } from '../../src/features/history/entries/history-item.ts';
import { keyEvent, pointerEvent, updateRequest } from '../../src/desktop/rfb/client-messages.ts';
import { ComputerContainers } from '../support/computer-containers.ts';
import type { FakeRfbServer } from '../support/fake-rfb-server.ts';
import { until, untilTrue } from '../support/until.ts';
import { Browser, Viewing } from '../support/viewer-fixture.ts';

let computers: ComputerContainers;
const open: Viewing[] = [];

let computerId: string;
let desktop: FakeRfbServer;

beforeAll(async () => {
  computers = await ComputerContainers.start();
  ({ computerId, desktop } = await computers.awake('ana'));
});
afterAll(() => computers?.close());
afterEach(() => open.splice(0).forEach(({ socket }) => socket.terminate()));

const ask = (method: string, path: string, json?: object) => computers.bed.ask(method, path, json === undefined ? {} : { json });

async function link(id: string, json: object = {}): Promise<string> {
  const made = await ask('POST', `/${id}/viewer`, json);
  expect([made.status, made.json.code]).toEqual([201, undefined]);
  return new URL(made.json.url as string).pathname;
}

async function connect(path: string, browser = new Browser(computers.server)): Promise<Viewing> {
  const viewing = await browser.connect(path);
  open.push(viewing);
  return viewing;
}

const click = () => ask('POST', `/${computerId}/actions`, { action: 'left_click', coordinate: [10, 20] });
const isSeen = (event: string) => untilTrue(() => desktop.events.includes(event));

describe('a viewer of a computer in its container', () => {
  it('can control it at the same time as an API caller, who gets the position of the moved pointer', async () => {
    const viewing = await connect(await link(computerId));
    viewing.send(keyEvent(0x61, true), keyEvent(0x61, false));
    await isSeen('key 61 up');
    expect((await click()).status).toBe(200);
    viewing.send(pointerEvent(0, 300, 200));
    await isSeen('pointer 300,200 0');
    const { json } = await ask('POST', `/${computerId}/actions`, { action: 'cursor_position' });
    expect(json.results).toEqual([{ index: 0, action: 'cursor_position', ok: true, x: 300, y: 200 }]);
  });

  it('controls it alone with exclusive control, and actions are refused meanwhile', async () => {
    const path = await link(computerId, { exclusive: true });
    expect((await click()).status).toBe(200);
    const viewing = await connect(path);
    const refused = await click();
    expect([refused.status, refused.json.code]).toEqual([409, 'human_in_control']);
    viewing.socket.close();
    await until('actions are taken again', async () => ((await click()).status === 200 ? true : undefined));
  });

  it('is in its history, and what was typed is not', async () => {
    const viewing = await connect(await link(computerId, { label: 'support' }));
    viewing.send(keyEvent(0x71, true), keyEvent(0x71, false), updateRequest(false, 1, 1));
    await isSeen('key 71 up');
    await ask('POST', `/${computerId}/sessions/close`);
    expect((await viewing.closed)[0]).toBe(4001);
    const { json } = await ask('GET', `/${computerId}/history?limit=200`);
    const [session] = (await ask('GET', `/${computerId}/sessions`)).json as { session_id: string }[];
    const items = (json as HistoryItem[]).filter(({ data }) => 'session_id' in data && data.session_id === session?.session_id);
    expect(items.map(({ type, actor }) => [type, actor.kind] as const).toSorted(([one], [other]) => one.localeCompare(other))).toEqual([
      ['ViewerClosed', 'api_key'],
      ['ViewerConnected', 'viewer'],
      ['ViewerCreated', 'api_key'],
      ['ViewerDisconnected', 'api_key'],
    ]);
    expect(items.find(({ type }) => type === 'ViewerConnected')?.actor.name).toBe('support');
  });

  it('is cut off when it is deleted', async () => {
    const { computerId: other } = await computers.awake('dan');
    const viewing = await connect(await link(other));
    const asked = ask('DELETE', `/${other}`);
    expect((await viewing.closed)[0]).toBe(4004);
    await computers.bed.recordWhen(other, 'deleting', { type: 'RecordDeleted' });
    expect((await asked).status).toBe(204);
  });

  it('prevents its sleep unless the sleep is forced, which ends the session', async () => {
    const viewing = await connect(await link(computerId, { mode: 'view' }));
    const refused = await ask('POST', `/${computerId}/sleep`, {});
    expect([refused.status, refused.json.code]).toEqual([409, 'session_connected']);
    const asked = ask('POST', `/${computerId}/sleep`, { force: true });
    await computers.bed.recordWhen(computerId, 'going_to_sleep', { type: 'RecordSlept', depth: 'stopped' });
    expect([(await asked).status, (await asked).json.status]).toEqual([200, 'asleep']);
    expect((await viewing.closed)[0]).toBe(4003);
    const sessions = (await ask('GET', `/${computerId}/sessions`)).json;
    expect(sessions[0]).toMatchObject({ status: 'closed', mode: 'view', connections: 0, closed_at: expect.any(String) });
  });
});
