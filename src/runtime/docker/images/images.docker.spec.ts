import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { importNodeImage } from '../../../../test/support/images.ts';
import { until } from '../../../../test/support/until.ts';
import type { DockerfileSource, ImageSource, ResolvedImage } from '../../image-source.ts';
import type { ContainerView } from '../../container.ts';
import { ImageGone, RuntimeRefused, ShellCommand } from '../../runtime.errors.ts';

describe('an image', () => {
  let bed: DockerFixture;
  let folder: string;
  let log: string[];
  beforeAll(async () => (bed = await DockerFixture.open()));
  afterAll(() => bed.close());
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-image-'));
    log = [];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const ensure = (source: ImageSource, signal = timeoutSignal(60_000)): Promise<ResolvedImage> =>
    bed.runtime.ensureImage(source, (line) => log.push(line), signal);
  const write = (files: Record<string, string>): void => {
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content, { mode: 0o600 });
  };
  const named = (reference: string): ImageSource => ({ kind: 'reference', reference, mayUse: async () => true });
  const dockerfile = (start: string[] | null = null): DockerfileSource => ({
    kind: 'dockerfile',
    directory: folder,
    dockerfile: 'Dockerfile',
    start,
    accountId: 'one',
  });
  const program: () => ImageSource = () => ({ kind: 'program', directory: folder, language: 'node', start: ['node', 'agent.mjs'] });

  /** Returns whether the engine was told to copy nothing of the image into any volume. */
  const nothingCopied = async ({ handle }: ContainerView) =>
    (await bed.docker.getContainer(handle).inspect()).HostConfig.Mounts?.every(({ VolumeOptions }) => VolumeOptions?.NoCopy);

  /** Returns the pin of the image, which has one name: its digest under that name, or its id where it has no digest. */
  const pinOf = async (image: string) => {
    const { Id, RepoDigests } = await bed.docker.getImage(image).inspect();
    return RepoDigests[0] ?? Id;
  };

  it('by reference is what the engine has, pinned by its digest or id', async () => {
    const found = { image: await pinOf(bed.image), name: bed.image, command: ['sleep', '300'], exposedPort: null };
    expect(await ensure(named(bed.image))).toEqual(found);
  });

  it('by reference is started by the command that was said, and has the one port that it exposes', async () => {
    const image = await bed.imageWith(['EXPOSE 3000/tcp', 'ENTRYPOINT ["/gone"]', 'CMD run me']);
    const source: ImageSource = { kind: 'reference', reference: image, mayUse: async () => true, start: ['sleep', '100'] };
    expect(await ensure(source)).toMatchObject({ command: ['sleep', '100'], exposedPort: 3_000 });
  });

  it('that the engine has but the caller may not use is pulled from its registry, as if the engine did not have it', async () => {
    const asked: string[] = [];
    const source: ImageSource = { kind: 'reference', reference: bed.image, mayUse: async (image) => asked.push(image) === 0 };
    await expect(ensure(source)).rejects.toThrow(RuntimeRefused);
    expect(asked).toEqual([await pinOf(bed.image)]);
    expect(log[0]).toBe(`Pulling ${bed.image}`);
  });

  it('is not found by an id, nor by the beginning of one', async () => {
    const { Id } = await bed.docker.getImage(bed.image).inspect();
    const hex = Id.replace('sha256:', '');
    for (const reference of [Id, hex, `sha256:${'0'.repeat(64)}`])
      await expect(ensure(named(reference))).rejects.toThrow(/no image reference/);
    for (const beginning of [hex.slice(0, 4), hex.slice(0, 12), hex.slice(0, 63)]) {
      await expect(ensure(named(beginning))).rejects.toThrow(RuntimeRefused);
      expect(log.at(-1)).toBe(`Pulling ${beginning}`);
    }
  });

  it('that can’t be pulled is refused with our own message, whatever its registry answered', async () => {
    const registry = createServer((_, answer) => answer.writeHead(418, { 'content-type': 'text/plain' }).end('an inner secret'));
    registry.listen(0, '127.0.0.1');
    await once(registry, 'listening');
    try {
      const { port } = registry.address() as AddressInfo;
      const refused = ensure(named(`127.0.0.1:${port}/x:1`));
      // The whole message is compared, because the registry's words could follow ours.
      await expect(refused).rejects.toMatchObject({ message: `The engine could not pull 127.0.0.1:${port}/x:1.` });
      await expect(refused).rejects.toThrow(RuntimeRefused);
      expect(log.join('\n')).not.toContain('secret');
    } finally {
      registry.closeAllConnections();
      registry.close();
    }
    await expect(ensure(named('127.0.0.1:1/nothing/here:1'))).rejects.toMatchObject({
      message: 'The registry of 127.0.0.1:1/nothing/here:1 could not be reached.',
    });
    await expect(ensure(named('No Reference'))).rejects.toThrow(/no image reference/);
  });

  it('whose CMD is a shell string, or that has none, is refused', async () => {
    const shell = await bed.imageWith(['CMD sleep 300']);
    await expect(ensure(named(shell))).rejects.toThrow(ShellCommand);
    await expect(ensure(named(await bed.imageWith([])))).rejects.toThrow(/no start command/);
  });

  it('is not built on one with triggers, which would be instructions that nobody has checked', async () => {
    const base = await bed.imageWith(['CMD ["sleep", "300"]', 'ONBUILD RUN ["/bin/echo", "triggered"]']);
    write({ Dockerfile: `FROM ${base}\n` });
    const bases = [{ kind: 'reference' as const, reference: base, mayUse: async () => true }];
    await expect(
      ensure({ kind: 'dockerfile', directory: folder, dockerfile: 'Dockerfile', start: null, accountId: 'one', bases }),
    ).rejects.toThrow(/has triggers/);
    expect(log.join('\n')).not.toContain('triggered');
  });

  it('is built from a Dockerfile, and its build is told line by line', async () => {
    write({
      Dockerfile: `FROM ${bed.image}\nCOPY hello.txt /hello.txt\nRUN ["/bin/cat", "/hello.txt"]\nENTRYPOINT ["sleep"]\nCMD ["100"]\n`,
      'hello.txt': 'hello there',
    });
    const built = await ensure(dockerfile());
    expect(built).toMatchObject({ image: expect.stringMatching(/^sha256:/), command: ['sleep', '100'] });
    expect(log.join('\n')).toContain('hello there');
    expect((await ensure(dockerfile(['/bin/sleep', '200']))).command).toEqual(['/bin/sleep', '200']);
    const view = await bed.running({ image: built.image, command: built.command });
    expect(await bed.output(view, 'cat /hello.txt')).toBe('hello there');
  });

  it('keeps one name if nothing has changed since it was built, and gets no step that its Dockerfile lacks', async () => {
    write({ Dockerfile: `FROM ${bed.image}\nCOPY hello.txt /hello.txt\nCMD ["sleep", "100"]\n`, 'hello.txt': 'the same' });
    const [first, second] = [await ensure(dockerfile()), await ensure(dockerfile())];
    expect(second).toEqual(first);
    expect((await bed.docker.getImage(first.image).inspect()).RepoTags).toEqual([first.name]);
    expect(log.filter((line) => line.startsWith('Step '))).toEqual(expect.not.arrayContaining([expect.stringContaining('LABEL')]));
    write({ 'hello.txt': 'changed' });
    const changed = await ensure(dockerfile());
    expect(changed.image).not.toBe(first.image);
    expect(changed.name).not.toBe(first.name);
  });

  it('gets the values of the arguments that its Dockerfile declares', async () => {
    write({ Dockerfile: `FROM ${bed.image}\nARG GREETING=none\nRUN ["/bin/echo", "it says $GREETING"]\nENV SAID=$GREETING\n` });
    const { image } = await ensure({ ...dockerfile(), args: { GREETING: 'hello, you = me' } });
    expect((await bed.docker.getImage(image).inspect()).Config.Env).toContain('SAID=hello, you = me');
  });

  it('whose Dockerfile fails or is missing is refused with the builder’s message', async () => {
    await expect(ensure(dockerfile())).rejects.toThrow(/Dockerfile/);
    write({ Dockerfile: `FROM ${bed.image}\nRUN ["/bin/ls", "/nothing"]\n` });
    await expect(ensure(dockerfile())).rejects.toThrow(/returned a non-zero code: 1: .*No such file or directory$/);
    expect(log.join('\n')).toContain('No such file or directory');
  });

  it('is no longer built once the build is canceled', async () => {
    write({ Dockerfile: `FROM ${bed.image}\nRUN ["/bin/sleep", "271"]\n` });
    const cancel = new AbortController();
    const building = ensure(dockerfile(), cancel.signal);
    building.catch(() => undefined);
    const step = () => bed.docker.listContainers({ filters: { ancestor: [bed.image] } });
    const running = async () => (await step()).filter(({ Command }) => Command.includes('271'));
    await until('the build runs its step', async () => ((await running()).length > 0 ? true : undefined));
    cancel.abort(new Error('called off'));
    await expect(building).rejects.toThrow('called off');
    await until('the step has ended', async () => ((await running()).length === 0 ? true : undefined));
  });

  it('of a program is made without any registry, and the log says from what', async () => {
    write({ 'agent.mjs': 'console.log(process.version, process.getuid()); setInterval(() => 0, 1000);' });
    const made = await ensure(program());
    if (!log.some((line) => line.startsWith('Pulling') && log.length === 1))
      expect(log).toEqual(
        expect.arrayContaining([expect.stringContaining('No registry was reached'), expect.stringContaining(process.version)]),
      );
    const view = await bed.running({ image: made.image });
    for await (const { text } of bed.runtime.logs(view.handle, null, timeoutSignal(10_000))) {
      expect(text).toMatch(/^v\d+\.\S+ 10001$/);
      break;
    }
    const lookUp = "node -e \"require('dns').lookup('localhost', (error, address) => console.log(error ?? address))\"";
    expect(await bed.output(view, lookUp)).toMatch(/127\.0\.0\.1|::1/);
  });

  it('of a program is made once, and again if it changed or the engine lost it', async () => {
    write({ 'agent.mjs': '0' });
    const first = await ensure(program());
    expect((await ensure(program())).image).toBe(first.image);
    expect(log.at(-1)).toContain('Nothing has changed');
    write({ 'agent.mjs': '1' });
    expect((await ensure(program())).name).not.toBe(first.name);
    write({ 'agent.mjs': '0' });
    await bed.docker.getImage(first.image).remove({ force: true });
    await expect(bed.runtime.create(bed.spec({ image: first.image }))).rejects.toThrow(ImageGone);
    const again = await ensure(program());
    expect(again.name).toBe(first.name);
    await expect(bed.runtime.create(bed.spec({ image: again.image }))).resolves.toMatchObject({ state: 'created' });
  });

  it('of a program lets its user write to the agent’s volume, whether that is new or not', async () => {
    write({ 'agent.mjs': 'setInterval(() => 0, 1000);' });
    const { image } = await ensure(program());
    const root = 'const { mode, uid } = require("fs").statSync("/data"); console.log((mode & 0o777).toString(8), uid)';
    const keep = 'require("fs").appendFileSync("/data/kept", "x"); console.log(require("fs").readFileSync("/data/kept", "utf8"))';
    const first = await bed.running({ image });
    expect(await nothingCopied(first)).toBe(false);
    expect(await bed.output(first, `node -e '${root}'`)).toBe('777 0\n');
    expect(await bed.output(first, `node -e '${keep}'`)).toBe('x\n');
    await bed.runtime.remove(first.handle);
    const second = await bed.running({ image, agentId: first.agentId, generation: 2 });
    expect(await bed.output(second, `node -e '${keep}'`)).toBe('xx\n');
    // A process that did not create the volume does not know whether a container of a foreign image has had it.
    const agentId = randomUUID();
    await bed.another().ensureVolume(agentId);
    const third = await bed.running({ image, agentId });
    expect(await bed.output(third, `node -e '${keep}'`)).toBe('x\n');
    expect([await nothingCopied(second), await nothingCopied(third)]).toEqual([true, true]);
  });

  it('of a program lets its user write to a volume that a program running as root had before', async () => {
    write({ 'agent.mjs': 'setInterval(() => 0, 1000);' });
    const { image } = await ensure(program());
    const root = await bed.running();
    await bed.run(root, 'echo mine > /data/of-root');
    await bed.runtime.remove(root.handle);
    const next = await bed.running({ image, agentId: root.agentId, generation: 2 });
    expect(await bed.output(next, `node -e 'require("fs").writeFileSync("/data/a", "x"); console.log(1)'`)).toBe('1\n');
  });

  it('that we did not build puts nothing into a new volume, whatever its labels', async () => {
    write({
      Dockerfile: `FROM ${bed.image}\nLABEL mooring.instance=${bed.instance}\nCOPY hello.txt /data/hello.txt\n`,
      'hello.txt': 'hello there',
    });
    const { image } = await ensure(dockerfile());
    expect(await bed.output(await bed.running({ image }), 'ls -A /data')).toBe('');
    expect(await bed.output(await bed.running({ image, user: '10001' }), 'ls -A /data; echo x > /data/a; cat /data/a')).toBe('x\n');
  });

  it('with the machine’s own Node can stand in for one of a registry', async () => {
    const name = await importNodeImage(bed.docker, `mooring-test-node-${bed.instance}:1`);
    try {
      expect((await ensure(named(name))).command).toEqual(['node']);
    } finally {
      await bed.docker.getImage(name).remove();
    }
  });
});
