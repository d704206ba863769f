import { Browser, ViewerFixture } from '../../../../test/support/viewer-fixture.ts';
import { untilTrue } from '../../../../test/support/until.ts';

let bed: ViewerFixture;
beforeAll(async () => (bed = await ViewerFixture.start()));
afterAll(() => bed?.server.close());

describe('a viewer of a computer that may sleep', () => {
  it('who does nothing lets the computer count as used for a while, until nobody sees it', async () => {
    const computerId = bed.computer();
    const { path } = await bed.session(computerId, { mode: 'view' });
    const browser = new Browser(bed.server);
    const [first, second] = [await browser.connect(path), await browser.connect(path)];
    expect(bed.desktops.keptAwake.get(computerId)).toBe(2);
    first.socket.terminate();
    await untilTrue(async () => (await bed.sessions(computerId))[0]?.connections === 1);
    expect(bed.desktops.keptAwake.has(computerId)).toBe(true);
    second.socket.terminate();
    await untilTrue(() => !bed.desktops.keptAwake.has(computerId));
  });

  it('who connects when the computer sleeps, or is about to, does not wake it', async () => {
    const computerId = bed.computer();
    const { path } = await bed.session(computerId);
    const browser = new Browser(bed.server);
    const { json } = await browser.ticket(path);
    (bed.desktops.computers.get(computerId) as { fate: string }).fate = 'asleep';
    expect(await browser.refused(path, json.ticket as string)).toEqual({ status: 409, code: 'computer_asleep' });
    expect(bed.desktops.woken).not.toContain(computerId);
  });
});
