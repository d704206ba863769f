import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { callTo, DesktopFixture, KnownComputers } from '../../../../test/support/desktop-pool.ts';
import { RealDesktop } from '../../../../test/support/real-desktop.ts';
import { until } from '../../../../test/support/until.ts';
import type { BatchOutcome } from '../../../desktop/driver/batch-runner.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const options = { format: 'png', quality: 80, scale: 1, region: { x: 0, y: 0, width: 800, height: 200 }, cursor: false } as const;
let desktop: RealDesktop;
let bed: DesktopFixture;

beforeAll(async () => {
  desktop = await RealDesktop.start('a desktop');
  bed = new DesktopFixture(() => desktop.dial(), new KnownComputers({ width: 1280, height: 800 }));
  await until('the terminal', () => (existsSync(join(desktop.home, 'ready')) ? true : undefined));
});

afterAll(async () => {
  await bed?.close();
  await desktop?.stop();
});

function run(...actions: object[]): Promise<BatchOutcome> {
  return bed.actions.run(callTo('one'), { actions }, (outcome) => outcome);
}

/** Waits for a file of the desktop whose content is like that. */
function fileOf(name: string, content: RegExp): Promise<string> {
  return until(name, async () => {
    const text = await readFile(join(desktop.home, name), 'utf8').catch(() => '');
    return content.test(text) ? text : undefined;
  });
}

describe('a computer with TigerVNC', () => {
  it('is there once its first frame is', async () => {
    const computer = { computerId: 'one', accountId: 'acme', generation: 1 };
    expect(await bed.pool.waitForFirstFrame(computer, 30_000, new AbortController().signal)).toBe(true);
  });

  it('runs the command that a batch types, and its screen shows it', async () => {
    const before = await bed.screens.capture(callTo('one'), options);
    const text = 'Grüße, 你好, 🚀';
    const outcome = await run(
      { action: 'left_click', coordinate: [400, 400] },
      { action: 'type', text: `echo '${text}' > note.txt\n` },
      { action: 'wait', duration: 0.3 },
    );
    expect(outcome).toMatchObject({ ok: true, completed: 3 });
    expect(await fileOf('note.txt', /\n/)).toBe(`${text}\n`);
    const after = await bed.screens.capture(callTo('one'), options);
    expect(after.image.data.equals(before.image.data)).toBe(false);
  });

  it('has no key or button held down after a process was killed in the middle of a batch', async () => {
    await run({ action: 'type', text: "printf '\\033[?1002h\\033[?1006h'; cat -v > mouse.txt\n" }, { action: 'wait', duration: 0.3 });
    const loader = ['--import', './scripts/typescript.mjs', '--disable-warning=ExperimentalWarning'];
    const holding = spawn(process.execPath, [...loader, 'test/support/holding-process.ts', desktop.socketPath], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(holding, 'exit');
    await Promise.race([once(holding.stdout, 'data'), ended.then(() => Promise.reject(new Error('the process has ended')))]);
    holding.kill('SIGKILL');
    await ended;
    await bed.pool.releaseInput({ computerId: 'one', accountId: 'acme', generation: 1 }, new AbortController().signal);
    await run({ action: 'key', text: 'Return ctrl+d' });
    await run({ action: 'type', text: "printf '\\033[?1002l\\033[?1006l'; echo typed > typed.txt\n" });
    expect(await fileOf('typed.txt', /\n/)).toBe('typed\n');
    // The press is followed by the release.
    expect(await fileOf('mouse.txt', /m/)).toMatch(/\^\[\[<0;\d+;\d+M.*\^\[\[<0;\d+;\d+m/s);
  });
});
