import { ComputerContainers } from '../support/computer-containers.ts';
import type { FakeRfbServer } from '../support/fake-rfb-server.ts';
import { VendorModels } from '../support/vendor-models.ts';

let computers: ComputerContainers;
let computerId: string;
let desktop: FakeRfbServer;
let models: VendorModels;

beforeAll(async () => {
  models = await VendorModels.start();
  computers = await ComputerContainers.start();
  ({ computerId, desktop } = await computers.awake('ana'));
});

afterAll(async () => {
  models.close();
  await computers?.close();
});

/** Posts what a model asks for, as it came, and returns what the desktop got of it. */
async function acted(body: unknown): Promise<{ results: { action: string; ok: boolean; screenshot?: object }[]; events: string[] }> {
  const before = desktop.events.length;
  const { status, json } = await computers.bed.ask('POST', `/${computerId}/actions`, { json: body });
  expect({ status, code: json.code, errors: json.errors, ok: json.ok }).toMatchObject({ status: 200, ok: true });
  return { results: json.results, events: desktop.events.slice(before).filter((event) => event !== 'pointer 320,240 0') };
}

describe('Anthropic’s SDK', () => {
  it('returns uses of the computer tool that are accepted unchanged, one by one', async () => {
    const uses = await models.anthropicUses([
      { name: 'computer', input: { action: 'screenshot' } },
      { name: 'computer', input: { action: 'left_click', coordinate: [100, 200], text: 'ctrl' } },
      { name: 'computer', input: { action: 'key', text: 'Return' } },
      { name: 'computer', input: { action: 'scroll', coordinate: [5, 6], scroll_direction: 'down', scroll_amount: 2 } },
      { name: 'computer', input: { action: 'zoom', region: [0, 0, 100, 50] } },
    ]);
    const answers: Awaited<ReturnType<typeof acted>>[] = [];
    for (const use of uses) answers.push(await acted(use));
    const [shot, click, key, scroll, zoom] = answers;
    expect(shot?.results[0]).toMatchObject({ action: 'screenshot', ok: true, screenshot: { format: 'png', width: 640, height: 480 } });
    expect(click?.events).toEqual(['pointer 100,200 0', 'key ffe3 down', 'pointer 100,200 1', 'pointer 100,200 0', 'key ffe3 up']);
    expect(key?.events).toEqual(['key ff0d down', 'key ff0d up']);
    expect(scroll?.events).toEqual(['pointer 5,6 0', 'pointer 5,6 16', 'pointer 5,6 0', 'pointer 5,6 16', 'pointer 5,6 0']);
    expect(zoom?.results[0]).toMatchObject({ screenshot: { width: 100, height: 50 } });
  });

  it('returns uses of the toolset that are accepted unchanged, as a batch', async () => {
    const uses = await models.anthropicUses([
      { name: 'mouse_move', input: { coordinate: [1, 2] } },
      { name: 'left_mouse_down', input: {} },
      { name: 'mouse_move', input: { coordinate: [3, 4] } },
      { name: 'left_mouse_up', input: {} },
      { name: 'type', input: { text: 'hi' } },
      { name: 'cursor_position', input: {} },
    ]);
    const { results, events } = await acted({ actions: uses });
    expect(results.map(({ action }) => action)).toEqual(uses.map(({ name }) => name));
    expect(events).toEqual([
      'pointer 1,2 0',
      'pointer 1,2 1',
      'pointer 3,4 1',
      'pointer 3,4 0',
      'key 68 down',
      'key 68 up',
      'key 69 down',
      'key 69 up',
    ]);
    expect(results.at(-1)).toMatchObject({ x: 3, y: 4 });
  });
});

describe('OpenAI’s SDK', () => {
  it('returns an action that is accepted unchanged', async () => {
    const { action } = await models.openaiCall({ action: { type: 'click', button: 'right', x: 0, y: 0 } });
    expect((await acted(action)).events).toEqual(['pointer 0,0 0', 'pointer 0,0 4', 'pointer 0,0 0']);
  });

  it('gives a batch of actions that is taken unchanged', async () => {
    const { actions } = await models.openaiCall({
      actions: [
        { type: 'move', x: 7, y: 8, keys: null },
        { type: 'double_click', x: 9, y: 9, keys: [] },
        { type: 'keypress', keys: ['CTRL', 'A'] },
        { type: 'type', text: 'x' },
        { type: 'scroll', x: 9, y: 9, scroll_x: 0, scroll_y: -120 },
        {
          type: 'drag',
          path: [
            { x: 0, y: 0 },
            { x: 10, y: 0 },
          ],
        },
        { type: 'screenshot' },
      ],
    });
    const { results, events } = await acted({ actions });
    expect(results).toHaveLength(7);
    expect(results.at(-1)).toMatchObject({ action: 'screenshot', screenshot: { width: 640 } });
    expect(events.slice(0, 10)).toEqual([
      'pointer 7,8 0',
      'pointer 9,9 0',
      'pointer 9,9 1',
      'pointer 9,9 0',
      'pointer 9,9 1',
      'pointer 9,9 0',
      'key ffe3 down',
      'key 61 down',
      'key 61 up',
      'key ffe3 up',
    ]);
    expect(events).toContain('pointer 9,9 8');
    expect(events.slice(-2)).toEqual(['pointer 10,0 1', 'pointer 10,0 0']);
  });
});
