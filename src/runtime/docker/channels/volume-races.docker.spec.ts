import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { busyboxEntries } from '../../../../test/support/images.ts';
import { until } from '../../../../test/support/until.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { machineProgram } from '../image-sources/machine-programs.ts';
import { importImage } from '../image-sources/registry.ts';

const PERL = '/usr/bin/perl';
const DOWNLOADS = 400;
const AT_ONCE = 4;
/** The numbers of the system call `renameat2`, its exchange, and the folder that relative paths begin at. */
const renameat2 = process.arch === 'arm64' ? 276 : 316;
const [RENAME_EXCHANGE, AT_FDCWD] = [2, -100];

/** The mounts of this machine at or below the folder, or of what is below it. */
async function mountsWith(part: string): Promise<string[]> {
  return (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').filter((line) => line.includes(part));
}

describe('an agent that leads the mount point of a volume of its image to the host', () => {
  let bed: DockerFixture;
  let target: string;
  let image: string;

  beforeAll(async () => {
    if (!existsSync(PERL)) throw new Error('this test needs perl');
    bed = await DockerFixture.open();
    target = mkdtempSync(join(tmpdir(), 'mooring-target-'));
    image = `mooring-test-${bed.instance}:races`;
    const tar = tarOf([...(await busyboxEntries()), ...(await machineProgram(PERL, 'usr/bin/perl'))]);
    const changes = ['ENV PATH=/bin:/usr/bin', 'VOLUME /a/b', 'CMD ["sleep", "300"]'];
    await importImage(bed.docker, tar, image, changes, timeoutSignal(60_000));
  });
  afterAll(async () => {
    await bed?.close();
    if (image) await bed.docker.getImage(image).remove({ force: true });
    rmSync(target, { recursive: true, force: true });
  });

  it('gets nothing mounted or written there by downloads of its folders, and no mount is left', async () => {
    const swap = `my ($a, $b) = ("/a", "/way"); syscall(${renameat2}, ${AT_FDCWD}, $a, ${AT_FDCWD}, $b, ${RENAME_EXCHANGE}) while 1`;
    const start = `/bin/busybox ln -s ${target} /way; echo evil > /a/b/evil; exec /usr/bin/perl -e '${swap}'`;
    const view = await bed.running({ image, user: '0', cpus: 2, command: ['/bin/busybox', 'sh', '-c', start] });
    await bed.output(view, '/bin/busybox mkdir /data/small; echo text > /data/small/file');
    // Both names are seen in both places.
    for (const kind of ['-L', '-d'])
      await until(`/a is swapped (${kind})`, async () =>
        (await bed.output(view, `[ ${kind} /a ] && [ ${kind} /way ] || [ ${kind} /a ] && echo yes`)).includes('yes') ? true : undefined,
      );
    const { Mounts, GraphDriver } = await bed.docker.getContainer(view.handle).inspect();
    const own = [...Mounts.map(({ Name = '' }) => Name), (GraphDriver.Data as unknown as { MergedDir: string }).MergedDir];
    const all = async () => (await Promise.all(own.map(mountsWith))).flat();
    const before = await all();
    let left = DOWNLOADS;
    const download = async () => {
      while (left-- > 0) {
        const { content } = await bed.runtime.files.read(view.handle, '/data/small', { maxBytes: null, signal: timeoutSignal(30_000) });
        for await (const _ of content);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, download));
    expect(await mountsWith(target)).toEqual([]);
    expect(readdirSync(target)).toEqual([]);
    expect(await all()).toEqual(before);
    await bed.runtime.remove(view.handle);
  });
});
