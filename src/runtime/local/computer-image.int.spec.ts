import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import { desktopPrograms, ensureComputerImage } from './computer-image.ts';

describe('the desktop of local computers', () => {
  const path = process.env['PATH'];
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-desktop-'));
    mkdirSync(join(folder, 'programs'));
    mkdirSync(join(folder, 'images'));
    process.env['PATH'] = join(folder, 'programs');
  });
  afterEach(() => {
    process.env['PATH'] = path;
    rmSync(folder, { recursive: true, force: true });
  });

  const ensure = () => ensureComputerImage(join(folder, 'images'), () => undefined, timeoutSignal(10_000));
  const install = (program: string, mode = 0o755) => {
    writeFileSync(join(folder, 'programs', program), '');
    chmodSync(join(folder, 'programs', program), mode);
  };

  it('names the programs that this machine lacks, and their packages', async () => {
    for (const program of Object.keys(desktopPrograms)) if (program !== 'xrdb') install(program);
    await expect(ensure()).rejects.toThrow(RuntimeRefused);
    await expect(ensure()).rejects.toThrow(
      'This machine lacks programs of a desktop (xrdb): install the package x11-xserver-utils of Debian',
    );
    rmSync(join(folder, 'programs/jwm'));
    await expect(ensure()).rejects.toThrow('(jwm, xrdb): install the packages jwm, x11-xserver-utils of Debian');
    install('xrdb');
    install('jwm', 0o644);
    await expect(ensure()).rejects.toThrow('(jwm)');
  });

  it('is the same image as long as its programs are', async () => {
    for (const program of Object.keys(desktopPrograms)) install(program);
    const image = await ensure();
    expect(image).toEqual({
      image: expect.stringMatching(/^[0-9a-f]{64}$/),
      name: `desktop:${image.image.slice(0, 12)}`,
      command: ['/app/desktop'],
    });
    expect(await ensure()).toEqual(image);
  });

  it('has its programs from packages that the image of computers has, too', () => {
    const dockerfile = readFileSync(new URL('../../../deploy/computer/Dockerfile', import.meta.url), 'utf8');
    const [, listed = ''] = /--no-install-recommends \\\n((?: {4}[a-z0-9-]+ \\\n)+)/.exec(dockerfile) ?? [];
    const packages = listed.split(/[\s\\]+/).filter(Boolean);
    expect(packages).toEqual(packages.toSorted());
    expect(packages).toEqual(expect.arrayContaining(Object.values(desktopPrograms)));
  });
});
