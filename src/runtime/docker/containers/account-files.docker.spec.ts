import { DockerFixture } from '../../../../test/support/docker-fixture.ts';

describe('an image whose files of accounts the engine must not open', () => {
  let bed: DockerFixture;
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());

  /** Makes an image of what the script leaves, with these lines of a Dockerfile. */
  async function imageOf(script: string, changes: string[] = []): Promise<string> {
    const made = await bed.docker.createContainer({ Image: bed.image, Entrypoint: ['/bin/busybox', 'sh', '-c', script] });
    try {
      await made.start();
      await made.wait();
      const { Id } = (await made.commit({ changes: ['ENTRYPOINT []', 'CMD ["sleep","300"]', ...changes] as never })) as { Id: string };
      bed.remember(Id);
      return Id;
    } finally {
      await made.remove({ force: true });
    }
  }

  it.each([
    ['a pipe', 'busybox rm -f /etc/passwd; busybox mkfifo /etc/passwd', [], '/etc/passwd is no ordinary file, but a pipe'],
    ['a link to a pipe', 'busybox mkfifo /pipe; busybox ln -s /pipe /etc/group', [], '/etc/group is no ordinary file, but a pipe'],
    ['a pipe below a volume', 'busybox rm -f /etc/passwd; busybox mkfifo /etc/passwd', ['VOLUME /etc'], 'but a pipe'],
    ['a file that a volume may hide', 'busybox ln -s /etc /x', ['VOLUME /x'], 'would take the place'],
  ])('is refused before anything is started: %s', async (_, script, changes, refusal) => {
    const image = await imageOf(script, changes);
    await expect(bed.runtime.create(bed.spec({ image }))).rejects.toThrow(refusal);
  });

  it('runs if they are links to ordinary files, and gets a new container at each start', async () => {
    const view = await bed.running({
      command: ['/bin/busybox', 'sleep', '300'],
      image: await imageOf(
        'busybox rm -f /etc/passwd; busybox mkdir /store; echo root:x:0:0::/:/bin/sh >/store/p; busybox ln -s /store/p /etc/passwd',
      ),
    });
    expect(await bed.output(view, 'cat /etc/passwd')).toContain('root');
    await bed.runtime.stop(view.handle, 0);
    await expect(bed.runtime.start(view.handle, {})).rejects.toMatchObject({ name: 'ContainerGone' });
  });

  it('gets another container if its program made a pipe of one, and the same one if it did not', async () => {
    const view = await bed.running();
    expect((await bed.run(view, 'echo x >/etc/mine; rm -f /etc/passwd; mkfifo /etc/passwd')).exitCode).toBe(0);
    await bed.runtime.stop(view.handle, 0);
    await expect(bed.runtime.start(view.handle, {})).rejects.toMatchObject({ name: 'ContainerGone' });
    const other = await bed.running();
    expect((await bed.run(other, 'echo x >/etc/mine')).exitCode).toBe(0);
    await bed.runtime.stop(other.handle, 0);
    await bed.runtime.start(other.handle, {});
    expect(await bed.output(other, 'cat /etc/mine')).toBe('x\n');
  });

  describe('of which the container’s user is not root', () => {
    const user = '1000:1000';
    const command = ['/bin/busybox', 'sleep', '300'];
    const pipe = 'rm -f /etc/passwd; mkfifo /etc/passwd';

    /** Returns how often the engine was asked to look through a container’s files. */
    function looksDuring<T>(work: () => Promise<T>): Promise<number> {
      const dial = jest.spyOn(Object.getPrototypeOf(bed.docker.modem) as { dial: (options: { path: string }) => unknown }, 'dial');
      const looks = () => dial.mock.calls.filter(([{ path }]) => path.includes('/changes')).length;
      return work()
        .then(looks)
        .finally(() => dial.mockRestore());
    }

    it('starts the same container again, without checking its files, if they are root’s', async () => {
      const view = await bed.running({ user, command });
      expect((await bed.run(view, pipe)).exitCode).not.toBe(0);
      await bed.runtime.stop(view.handle, 0);
      expect(await looksDuring(() => bed.runtime.start(view.handle, {}))).toBe(0);
      expect(await bed.state(view)).toMatchObject({ state: 'running' });
    });

    it.each([
      ['the folder is another’s', 'busybox chown 1000 /etc'],
      ['the folder may be written by others', 'busybox chmod 0777 /etc'],
      ['the file is another’s', 'busybox chown 1000 /etc/passwd'],
    ])('checks its files if %s', async (_, script) => {
      const view = await bed.running({ user, command, image: await imageOf(script) });
      await bed.runtime.stop(view.handle, 0);
      expect(await looksDuring(() => bed.runtime.start(view.handle, {}))).toBe(1);
    });

    it('gets another container if its program made a pipe of one nevertheless', async () => {
      const view = await bed.running({ user, command, image: await imageOf('busybox chmod 0777 /etc') });
      expect((await bed.run(view, pipe)).exitCode).toBe(0);
      await bed.runtime.stop(view.handle, 0);
      await expect(bed.runtime.start(view.handle, {})).rejects.toMatchObject({ name: 'ContainerGone' });
    });

    it('checks its files if the user is given by a name, which may be root’s', async () => {
      const image = await imageOf('busybox echo toor:x:0:0::/:/bin/sh >>/etc/passwd');
      const view = await bed.running({ user: 'toor', command, image });
      expect((await bed.run(view, pipe)).exitCode).toBe(0);
      await bed.runtime.stop(view.handle, 0);
      await expect(bed.runtime.start(view.handle, {})).rejects.toMatchObject({ name: 'ContainerGone' });
    });
  });
});
