import { desktopImage, DESKTOP_IMAGE_MS } from '../support/desktop-image.ts';
import { Replicas } from '../support/replicas.ts';

jest.setTimeout(DESKTOP_IMAGE_MS);

describe('a computer on which callers of two services act', () => {
  let replicas: Replicas;
  let computer = '';

  beforeAll(async () => {
    replicas = await Replicas.start(2, 'docker', { MOORING_COMPUTER_IMAGE: await desktopImage() });
    const made = await replicas.at(0).call('POST', '/api/v1/computers', { end_user_id: 'ana' }, { prefer: 'wait=60' });
    computer = `/api/v1/computers/${made.body.computer_id}`;
    expect((await replicas.at(0).call('POST', `${computer}/wake`)).body).toMatchObject({ status: 'awake' });
  });
  afterAll(async () => {
    await replicas?.dispose();
  });

  const act = async (replica: number, ...actions: object[]) =>
    (await replicas.at(replica).call('POST', `${computer}/actions`, { actions })).body;
  const moveTo = (place: number) => ({ action: 'mouse_move', coordinate: [place, place] });
  const look = { action: 'cursor_position' };

  it('runs one batch at a time, and each starts with the pointer where the last one ended', async () => {
    for (let round = 0; round < 3; round += 1) {
      const [one, other] = await Promise.all([
        act(0, moveTo(200), { action: 'wait', duration: 0.5 }, look),
        act(1, moveTo(400), { action: 'wait', duration: 0.5 }, look),
      ]);
      expect([one.results[2], other.results[2]]).toMatchObject([
        { x: 200, y: 200 },
        { x: 400, y: 400 },
      ]);
      const [here, there] = [await act(0, look), await act(1, look)];
      expect(here.cursor).toEqual(there.cursor);
    }
  });

  it('keeps a button down that the other service has pressed', async () => {
    await act(0, moveTo(100), { action: 'left_mouse_down' });
    await act(1, moveTo(300), { action: 'left_mouse_up' });
    expect((await act(0, look)).cursor).toEqual({ x: 300, y: 300 });
  });
});
