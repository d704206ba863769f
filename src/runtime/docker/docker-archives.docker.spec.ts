import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';

import { pack, type Pack } from 'tar-stream';

import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { RuntimeRefused } from '../runtime.errors.ts';

const LEFT = '/tmp/mooring-test-planted';

describe('files that are put into a container whose image has links', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  const put = async (handle: string, entries: (Parameters<Pack['entry']>[0] & { text?: string })[]) => {
    const tar = pack();
    for (const { text, ...header } of entries) tar.entry(header, text ?? '');
    tar.finalize();
    await bed.runtime.copyIn(handle, '/', Readable.from(tar));
  };
  const link = (linkname: string): Parameters<Pack['entry']>[0] => ({ name: 'service', type: 'symlink', linkname });
  const planted = { name: 'service/busybox', mode: 0o755, text: 'planted' };

  it('reach no file of the helper, which all agents share', async () => {
    const view = await bed.runtime.create(bed.spec());
    await put(view.handle, [link('/.mooring')]);
    await expect(put(view.handle, [planted])).rejects.toThrow(RuntimeRefused);
    expect(await bed.output(await bed.running(), 'echo well')).toBe('well\n');
  });

  it.each(['../../../../../../../../../..', '/', '/proc/1/root', '/proc/self/root', '/dev/fd'])(
    'reach no file of the host through a link to %s',
    async (target) => {
      const view = await bed.runtime.create(bed.spec());
      await put(view.handle, [link(target)]);
      await put(view.handle, [{ name: `service${LEFT}`, text: 'planted' }]).catch((error: unknown) =>
        expect(error).toBeInstanceOf(RuntimeRefused),
      );
      expect(existsSync(LEFT)).toBe(false);
    },
  );

  it('get directories that everybody may enter and only root may change', async () => {
    const view = await bed.runtime.create(bed.spec());
    await put(view.handle, [{ name: 'service/scripts/run.sh', mode: 0o755, text: '#!/bin/sh\necho "$0"\n' }]);
    await bed.runtime.start(view.handle, {});
    expect(await bed.output(view, 'stat -c "%a %u" /service /service/scripts /service/scripts/run.sh')).toBe('755 0\n755 0\n755 0\n');
  });

  it('are written only to the volume of a container whose file system is read-only', async () => {
    const view = await bed.runtime.create(bed.spec({ readOnlyRoot: true }));
    const tar = () => {
      const made = pack();
      made.entry({ name: 'a.txt' }, 'kept');
      made.finalize();
      return Readable.from(made);
    };
    await bed.runtime.copyIn(view.handle, '/data', tar());
    await expect(bed.runtime.copyIn(view.handle, '/', tar())).rejects.toThrow(RuntimeRefused);
    await bed.runtime.start(view.handle, {});
    expect(await bed.output(view, 'cat /data/a.txt')).toBe('kept');
  });

  it('are refused with our own message if a file of the image is in the way', async () => {
    const view = await bed.runtime.create(bed.spec());
    const error = await put(view.handle, [{ name: 'bin/busybox/service', text: 'x' }]).catch((refusal: Error) => refusal);
    expect(error).toBeInstanceOf(RuntimeRefused);
    expect((error as Error).message).toBe(
      'The files can’t be written: something in the image is in their way, such as a file in the place of a folder, a link or a volume.',
    );
  });
});
