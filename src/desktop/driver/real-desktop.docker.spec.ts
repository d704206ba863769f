import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { RealDesktop } from '../../../test/support/real-desktop.ts';
import { until } from '../../../test/support/until.ts';
import type { Size } from '../actions/canonical-actions.ts';
import { normaliseBatch } from '../actions/normalise-batch.ts';
import { encodeImage } from '../screen/encode-image.ts';
import type { BatchOutcome } from './batch-runner.ts';
import { DesktopDriver } from './desktop-driver.ts';

const never = new AbortController().signal;
const WORD = 'lighthouse';
let desktop: RealDesktop;
let driver: DesktopDriver;

beforeAll(async () => {
  desktop = await RealDesktop.start(WORD);
  driver = new DesktopDriver({ dial: () => desktop.dial(), encode: encodeImage, reserve: async () => () => undefined });
  await until('the terminal', () => (existsSync(join(desktop.home, 'ready')) ? true : undefined));
});

afterAll(async () => {
  await driver.close();
  await desktop.stop();
});

async function run(...actions: object[]): Promise<BatchOutcome> {
  const batchFor = async (size: Size) => {
    const normalised = normaliseBatch({ actions }, size);
    if (!normalised.ok) throw new Error(JSON.stringify(normalised.errors));
    return normalised.batch;
  };
  return driver.run({ batchFor, reserveImage: () => true }, never);
}

/** Takes a picture of the whole screen. */
async function take(cursor: boolean): Promise<Buffer> {
  const { data } = await driver.picture(cursor, () => ({ format: 'png', quality: 80 }), never);
  return data;
}

/** Waits for a file of the desktop that is not empty. */
async function fileOf(name: string, bytes = 1): Promise<string> {
  const read = async () => readFile(join(desktop.home, name), 'utf8').catch(() => '');
  return until(name, async () => {
    const text = await read();
    return Buffer.byteLength(text) >= bytes ? text : undefined;
  });
}

describe('a desktop of TigerVNC', () => {
  it('gets text of any script exact, in order with the keys around it', async () => {
    const text = 'Größe café ñ, zażółć, Ωμέγα, Привет, 你好, 🚀🧭';
    const outcome = await run(
      { type: 'click', x: 200, y: 300, button: 'left' },
      { type: 'type', text: "cat > note.txt <<'END'\n" },
      { action: 'type', text: `${text}\n` },
      { action: 'type', text: 'and ~!@#$%^&*()_+{}|:"<>?`-=[]\\;\',./ after\nEND\n' },
    );
    expect(outcome).toMatchObject({ ok: true, completed: 4, cursor: { x: 200, y: 300 } });
    expect(await fileOf('note.txt')).toBe(`${text}\nand ~!@#$%^&*()_+{}|:"<>?\`-=[]\\;',./ after\n`);
  });

  it('gets combinations of keys as a keyboard sends them', async () => {
    await run(
      { action: 'type', text: 'stty raw; head -c 4 > keys.txt; stty sane; echo done > done.txt\n' },
      { action: 'wait', duration: 0.5 },
      { action: 'key', text: 'ctrl+a' },
      { type: 'keypress', keys: ['CTRL', 'B'] },
      { action: 'key', text: 'shift+1 shift+a' },
    );
    expect(await fileOf('done.txt')).toBe('done\n');
    expect(await fileOf('keys.txt')).toBe('\u0001\u0002!A');
  });

  it('selects a word by a double click, and pastes it by a middle click', async () => {
    await run({ action: 'key', text: 'ctrl+l' }, { action: 'type', text: `clear; echo ${WORD}\n` }, { action: 'wait', duration: 0.5 });
    await run(
      { action: 'double_click', coordinate: [20, 10] },
      { action: 'type', text: 'cat > word.txt\n' },
      { action: 'middle_click', coordinate: [300, 300] },
      { action: 'wait', duration: 0.5 },
      { action: 'key', text: 'Return ctrl+d' },
    );
    expect(await fileOf('word.txt')).toBe(`${WORD}\n`);
  });

  it('shows in the next picture what was typed, and the same picture while nothing changes', async () => {
    const before = await take(true);
    await run({ action: 'type', text: 'visible' }, { action: 'wait', duration: 0.3 });
    const after = await take(true);
    expect(after.equals(before)).toBe(false);
    await run({ action: 'key', text: 'ctrl+u' });
  });

  it('is shown with or without its pointer', async () => {
    await run({ action: 'mouse_move', coordinate: [700, 500] }, { action: 'wait', duration: 0.3 });
    const [drawn, bare] = [await take(true), await take(false)];
    expect(drawn.equals(bare)).toBe(false);
  });

  it('is reached again after its connections were cut', async () => {
    desktop.cut();
    const outcome = await run({ action: 'type', text: 'echo again > again.txt\n' });
    expect(outcome).toMatchObject({ ok: true, cursor: { x: 700, y: 500 } });
    expect(await fileOf('again.txt')).toBe('again\n');
  });
});
