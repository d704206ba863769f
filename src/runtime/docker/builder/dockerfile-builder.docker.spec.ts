import { createHash } from 'node:crypto';

import { BUILDER_IMAGE_MS } from '../../../../test/support/builder-image.ts';
import { BuilderFixture } from '../../../../test/support/builder-fixture.ts';
import { until } from '../../../../test/support/until.ts';

describe('a Dockerfile', () => {
  let bed: BuilderFixture;
  beforeAll(async () => (bed = await BuilderFixture.open()), BUILDER_IMAGE_MS);
  afterAll(() => bed.close());

  it('is built with the features that current Dockerfiles use', async () => {
    const { image } = bed.bed;
    const log: string[] = [];
    const dockerfile = `# escape=\\
ARG BASE=${image}
FROM \${BASE} AS tools
ONBUILD RUN echo triggered > /triggered
RUN mkdir /tools && echo one > /tools/one

FROM tools AS parts
SHELL ["/bin/sh", "-e", "-c"]
RUN --mount=type=cache,target=/cache --mount=type=tmpfs,target=/scratch --mount=type=bind,source=file.txt,target=/file.txt \\
    cat /file.txt > /tools/bound && echo x >> /cache/count && cat /cache/count > /tools/count && touch /scratch/none
RUN --mount=type=secret,id=none ls /run/secrets 2>/dev/null || true
RUN <<EOF
echo from a here-document > /tools/here
EOF

FROM ${image}
COPY --from=parts --chown=10001:10001 --chmod=0750 /tools /tools
COPY --link --from=0 /tools/one /linked
COPY <<EOF /written
written here
EOF
ADD file.txt /added
COPY --from=parts /triggered /triggered
COPY --parents --exclude=**/*.md docs /copied
RUN cat /tools/* /linked /written /added /triggered; ls -R /copied; ls -ln / | grep tools
USER 10001
`;
    const built = await bed.build({
      files: { Dockerfile: dockerfile, 'file.txt': 'a file\n', 'docs/a.txt': 'a', 'docs/b.md': 'b' },
      bases: [image],
      log,
    });
    expect(log).toEqual(expect.arrayContaining(['a file', 'x', 'from a here-document', 'one', 'written here', 'triggered']));
    expect(log.find((line) => /^d.* tools$/.test(line))).toMatch(/^drwxr-x---\s+\d+ 10001\s+10001/);
    expect(log).toContain('a.txt');
    expect(log).not.toContain('b.md');
    const found = await bed.bed.docker.getImage(built.image).inspect();
    expect(found).toMatchObject({ RepoTags: [built.name], Config: { User: '10001', Labels: { 'mooring.instance': bed.bed.instance } } });
    const view = await bed.bed.running({ image: built.image, command: ['sleep', '300'] });
    expect(await bed.bed.output(view, 'cat /tools/here; id -u')).toBe('from a here-document\n10001\n');
  }, 180_000);

  it('honours a .dockerignore', async () => {
    const files = {
      Dockerfile: `FROM ${bed.bed.image}\nCOPY . /all\nRUN ls -A /all\n`,
      '.dockerignore': 'secret.txt\n',
      'secret.txt': 's',
      'open.txt': 'o',
    };
    const log: string[] = [];
    await bed.build({ files, bases: [bed.bed.image], log });
    expect(log).toContain('open.txt');
    expect(log).not.toContain('secret.txt');
  });

  it('that has not changed reuses every step from the cache and keeps its image and its name', async () => {
    const files = { Dockerfile: `FROM ${bed.bed.image}\nRUN echo once > /once\nCOPY file.txt /file.txt\n`, 'file.txt': 'same' };
    const log: string[] = [];
    const first = await bed.build({ files, bases: [bed.bed.image] });
    const second = await bed.build({ files, bases: [bed.bed.image], log });
    expect(second).toEqual(first);
    expect(log.filter((line) => /^Using cache: .*(RUN|COPY)/.test(line))).toHaveLength(2);
  }, 120_000);

  it('whose file has changed, though not its size, is built with the new content', async () => {
    const built = async (content: string) => {
      const log: string[] = [];
      const files = { Dockerfile: `FROM ${bed.bed.image}\nCOPY file.txt /file.txt\nRUN cat /file.txt\n`, 'file.txt': content };
      const { image } = await bed.build({ files, bases: [bed.bed.image], log });
      return { image, isRead: log.includes(content) };
    };
    const [first, second] = [await built('one'), await built('two')];
    expect([first.isRead, second.isRead]).toEqual([true, true]);
    expect(second.image).not.toBe(first.image);
  }, 120_000);

  it('is built again for another account, without the cache of the first', async () => {
    const files = { Dockerfile: `FROM ${bed.bed.image}\nRUN cat /proc/sys/kernel/random/uuid > /once\n` };
    const first = await bed.build({ files, bases: [bed.bed.image] });
    expect(await bed.build({ files, bases: [bed.bed.image] })).toEqual(first);
    const another = await bed.build({ files, bases: [bed.bed.image], accountId: 'another' });
    expect(another.image).not.toBe(first.image);
  }, 120_000);

  it('gets the values of the arguments that it declares, as they are', async () => {
    const value = 'hello, you = "me"\nagain';
    const log = await bed.lines(['ARG GREETING=none', 'RUN echo "$GREETING"'], { args: { GREETING: value, OTHER: 'x' } });
    expect(log).toEqual(expect.arrayContaining(['hello, you = "me"', 'again']));
  });

  it('mounts the secrets that it is given where a step asks for one, and nothing of them is in its image', async () => {
    const secrets = { TOKEN: 'canary, of = a\nsecret', OTHER: 'canary-other' };
    const lines = [
      'ARG TOKEN=none',
      'RUN --mount=type=secret,id=TOKEN sha256sum < /run/secrets/TOKEN; echo "argument $TOKEN"',
      'RUN ls -A /run/secrets 2>&1 || true',
    ];
    const log: string[] = [];
    const files = { Dockerfile: [`FROM ${bed.bed.image}`, ...lines, ''].join('\n') };
    const { image } = await bed.build({ files, bases: [bed.bed.image], secrets, log });
    expect(log).toContain(`${createHash('sha256').update(secrets.TOKEN).digest('hex')}  -`);
    expect(log).toContain('argument none');
    const found = bed.bed.docker.getImage(image);
    expect(JSON.stringify([log, await found.inspect(), await found.history()])).not.toContain('canary');
    let rest = '';
    for await (const chunk of await found.get()) {
      const text = rest + (chunk as Buffer).toString('latin1');
      expect(text.includes('canary')).toBe(false);
      rest = text.slice(-'canary'.length);
    }
    await expect(bed.lines(['RUN --mount=type=secret,id=MISSING,required=true true'], { secrets })).rejects.toThrow(/MISSING/);
  }, 120_000);

  it('that fails is refused with its step, its exit code and its last line', async () => {
    await expect(bed.lines(['RUN echo the reason && exit 7'])).rejects.toThrow(
      /RUN echo the reason && exit 7 failed with exit code 7: the reason$/,
    );
    await expect(bed.lines(['RUNN true'])).rejects.toThrow(/unknown instruction: RUNN/);
    await expect(bed.lines(['LABEL mooring.agent=someone'])).rejects.toThrow(/label mooring\.agent/);
  });

  it('is not built, not even by the engine, if the image of the builder lacks what it needs', async () => {
    const poor = bed.another({ image: bed.bed.image });
    try {
      const source = { kind: 'dockerfile' as const, directory: '/etc/apt', dockerfile: 'Dockerfile', start: ['x'], accountId: 'poor' };
      await expect(poor.ensureImage(source, () => undefined, new AbortController().signal)).rejects.toThrow(/unshare/);
      await until('no builder is left', async () => ((await bed.builders()).length <= 3 ? true : undefined));
    } finally {
      await poor.close();
    }
  });
});
