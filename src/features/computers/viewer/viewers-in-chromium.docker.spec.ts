import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Chromium, type Page } from '../../../../test/support/chromium.ts';
import { RealDesktop } from '../../../../test/support/real-desktop.ts';
import { until } from '../../../../test/support/until.ts';
import { ViewerFixture } from '../../../../test/support/viewer-fixture.ts';

let bed: ViewerFixture;
let desktop: RealDesktop;
let chromium: Chromium;
let computerId: string;

beforeAll(async () => {
  desktop = await RealDesktop.start('the desktop of a test');
  chromium = await Chromium.start();
  bed = await ViewerFixture.start();
  computerId = bed.computer(desktop);
  await until('the terminal is there', () => (existsSync(join(desktop.home, 'ready')) ? true : undefined));
}, 120_000);
afterAll(async () => {
  await chromium?.stop();
  await bed?.server.close();
  await desktop?.stop();
});

const link = async (json: object = {}) => `${bed.server.url}${(await bed.session(computerId, json)).path}`;
const isConnected = (page: Page) => page.shows('the desktop is shown', `document.body.dataset.state === 'connected'`);
const says = (page: Page, text: string) =>
  page.shows(`the page says: ${text}`, `document.body.innerText.includes(${JSON.stringify(text)})`);
/** Returns a sum of what the page shows of the desktop. */
const picture = (page: Page) =>
  page.value<number>(
    `[...document.querySelector('#screen canvas').getContext('2d').getImageData(0, 0, 1280, 800).data].reduce((a, b) => (a * 31 + b) | 0, 0)`,
  );
const contentOf = (name: string) => {
  const path = join(desktop.home, name);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
};

describe('the page of a link in Chromium', () => {
  it('shows the desktop, and a person clicks and types on it', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    await says(page, 'You are in control');
    await page.shows('the size is that of the desktop', `document.querySelector('#screen canvas').width === 1280`);
    const before = await picture(page);
    await page.click('#screen canvas');
    await page.type('echo "typed by hand" > typed.txt\n');
    expect(await until('the file is there', () => contentOf('typed.txt') || undefined)).toBe('typed by hand\n');
    await until('the page shows it', async () => ((await picture(page)) === before ? undefined : true));
    expect(page.complaints).toEqual([]);
  });

  it('sends any text to the clipboard of the desktop', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    await page.click('#clipboard-button');
    await page.value(`document.getElementById('clipboard-text').value = 'echo Größe 漢字 😀 > pasted.txt'`);
    await page.click('#clipboard-send');
    await page.click('#clipboard-button');
    await page.click('#screen canvas');
    const before = await picture(page);
    await page.pressWithShift('Insert', 45);
    // The terminal asks for the text first.
    await until('the page shows it', async () => ((await picture(page)) === before ? undefined : true));
    await page.type('\n');
    expect(await until('the file is there', () => contentOf('pasted.txt') || undefined)).toBe('Größe 漢字 😀\n');
  });

  it('fits the window, or shows the desktop in its own size', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    const width = `document.querySelector('#screen canvas').getBoundingClientRect().width`;
    await page.send('Emulation.setDeviceMetricsOverride', { width: 700, height: 500, deviceScaleFactor: 1, mobile: false });
    await page.shows('it fits', `${width} <= 700`);
    await page.click('#scale-button');
    await page.shows('it has its own size', `${width} === 1280`);
  });

  it('types the input of a touch screen’s keyboard', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    await page.click('#keyboard-button');
    for (const text of ['echo by touch > touch.txtx', '\n']) {
      if (text === '\n') await page.value(`document.execCommand('delete')`);
      await page.send('Input.insertText', { text });
    }
    expect(await until('the file is there', () => contentOf('touch.txt') || undefined)).toBe('by touch\n');
  });

  it('changes nothing for a view-only viewer, even with a modified page', async () => {
    const page = await chromium.open(await link({ mode: 'view' }));
    await isConnected(page);
    await says(page, 'View only');
    await page.click('#screen canvas');
    await page.type('touch seen.txt\n');
    // Another viewer types later: what the first one typed would be there before it.
    const other = await chromium.open(await link());
    await isConnected(other);
    await other.click('#screen canvas');
    await other.type('touch later.txt\n');
    await until('the other file is there', () => contentOf('later.txt') !== undefined || undefined);
    expect(contentOf('seen.txt')).toBeUndefined();
  });

  it('continues after a reload, but not in a second browser', async () => {
    const url = await link();
    const page = await chromium.open(url);
    await isConnected(page);
    await page.value(`document.body.dataset.state = 'old'`);
    await page.reload();
    await isConnected(page);
    const second = await chromium.open(url);
    await says(second, 'This link is open in another browser');
    await says(page, 'You are in control');
  });

  it('loads itself again when a part of it could not be loaded', async () => {
    const page = await chromium.open('about:blank');
    await page.send('Network.enable');
    await page.send('Network.setBlockedURLs', { urls: ['*/core/rfb.js'] });
    await page.load(await link());
    await says(page, 'A part of this page could not be loaded.');
    await page.send('Network.setBlockedURLs', { urls: [] });
    await isConnected(page);
  });

  it('connects again by itself when the desktop ended the connection', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    await page.value(`document.body.dataset.state = 'old'`);
    desktop.cut();
    await isConnected(page);
    expect(page.complaints).toEqual([]);
  });

  it('shows that somebody else is in control', async () => {
    const page = await chromium.open(await link());
    await isConnected(page);
    const alone = await chromium.open(await link({ exclusive: true }));
    await isConnected(alone);
    await says(page, 'Someone else is in control');
    await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, {});
    await says(alone, 'This session was closed');
    await says(page, 'This session was closed');
  });

  it('shows that a link was closed, or is not valid', async () => {
    const { id, path } = await bed.session(computerId);
    await bed.ask('POST', `/api/v1/computers/${computerId}/sessions/close`, { session_id: id });
    await says(await chromium.open(`${bed.server.url}${path}`), 'This session was closed');
    await says(await chromium.open(`${bed.server.url}${path.slice(0, -8)}`), 'This link is not valid');
  });
});
