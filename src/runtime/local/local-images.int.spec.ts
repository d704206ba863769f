import { link, mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { LocalImages } from './local-images.ts';
import { PackageStore } from './projects/package-store.ts';

const FILE_BYTES = 1024 ** 2;
const HOUR_MS = 60 * 60_000;

describe('the images of the local runtime', () => {
  let home: string;
  let packages: PackageStore;
  let images: LocalImages;

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'mooring-images-'));
    await mkdir(join(home, 'images'));
    packages = new PackageStore(join(home, 'packages'));
    images = new LocalImages(join(home, 'images'), packages);
  });
  afterEach(() => rm(home, { recursive: true, force: true }));

  const put = async (path: string, sameAs: string | null = null) => {
    await mkdir(dirname(join(home, path)), { recursive: true });
    await (sameAs === null ? writeFile(join(home, path), Buffer.alloc(FILE_BYTES, 'x')) : link(join(home, sameAs), join(home, path)));
  };
  const used = (path: string, agoMs: number) => utimes(join(home, path), new Date(), new Date(Date.now() - agoMs));

  it('count a file once that they share with each other and with the packages', async () => {
    await put('packages/rope/files/index.js');
    for (const image of ['first', 'second']) await put(`images/${image}/files/index.js`, 'packages/rope/files/index.js');
    const { own, ownBytes, all } = await images.list();
    expect(own.map(({ id }) => id).toSorted()).toEqual(['first', 'packages/rope', 'second']);
    for (const { bytes } of own) expect(bytes).toBeGreaterThanOrEqual(FILE_BYTES);
    expect(all).toEqual({ count: 3, bytes: ownBytes });
    expect(all.bytes).toBeGreaterThanOrEqual(FILE_BYTES);
    expect(all.bytes).toBeLessThan(1.5 * FILE_BYTES);
    await put('images/third/files/main.js');
    expect((await images.list()).all.bytes).toBeGreaterThanOrEqual(2 * FILE_BYTES);
  });

  it('are listed before anything was built', async () => {
    expect(await images.list()).toMatchObject({ own: [], all: { count: 0 } });
  });

  it('record when packages were last used, and keep those that a build may be copying', async () => {
    for (const key of ['old', 'new']) await put(`packages/${key}/files/index.js`);
    await mkdir(join(home, 'packages', '.trash-of-a-killed-process'));
    await used('packages/old', 2 * HOUR_MS);
    const { own } = await images.list();
    const ages = own.map(({ id, builtOnAt }) => [id, Math.round((Date.now() - (builtOnAt?.getTime() ?? 0)) / HOUR_MS)]);
    expect(Object.fromEntries(ages)).toEqual({ 'packages/new': 0, 'packages/old': 2 });
    expect(await images.remove('packages/new')).toBe(false);
    expect(await images.remove('packages/old')).toBe(true);
    expect(await images.remove('packages/old')).toBe(true);
    expect((await images.list()).own.map(({ id }) => id)).toEqual(['packages/new']);
  });
});
