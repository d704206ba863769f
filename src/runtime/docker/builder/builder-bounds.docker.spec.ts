import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { BUILDER_IMAGE_MS } from '../../../../test/support/builder-image.ts';
import { BuilderFixture } from '../../../../test/support/builder-fixture.ts';
import { until } from '../../../../test/support/until.ts';

describe('a build', () => {
  let bed: BuilderFixture;
  beforeAll(async () => (bed = await BuilderFixture.open({ cacheMb: 400 })), BUILDER_IMAGE_MS);
  afterAll(() => bed.close());

  it('that is canceled ends while its step still sleeps, and leaves only its account’s cache', async () => {
    const cancel = new AbortController();
    const log: string[] = [];
    const building = bed.lines(['RUN echo begun; sleep 271'], { accountId: 'canceled', signal: cancel.signal, log });
    building.catch(() => undefined);
    await until('the step runs', () => (log.includes('begun') ? true : undefined));
    cancel.abort(new Error('called off'));
    await expect(building).rejects.toThrow('called off');
    expect(await bed.builders('canceled')).toEqual([]);
    expect(await bed.caches('canceled')).toHaveLength(1);
    expect(await bed.lines(['RUN echo again'], { accountId: 'canceled' })).toContain('again');
  }, 120_000);

  it.each([
    ['root', 'RUN dd if=/dev/zero of=/big bs=1M count=4000'],
    [
      'a user in a folder that only that user may read',
      'USER 10001\nRUN mkdir -m 700 /tmp/mine && dd if=/dev/zero of=/tmp/mine/big bs=1M count=4000',
    ],
    ['one that keeps the file open and removed', 'RUN exec 3>/big; rm /big; dd if=/dev/zero bs=1M count=1500 >&3; sleep 30'],
  ])(
    'whose step writes more than the cache may hold, as %s, ends alone',
    async (_, step) => {
      await expect(bed.lines([step], { accountId: 'large' })).rejects.toThrow(/more than 400 MiB/);
      expect([await bed.builders('large'), await bed.caches('large')]).toEqual([[], []]);
      expect(await bed.lines(['RUN echo small'], { accountId: 'large' })).toContain('small');
    },
    120_000,
  );

  it('whose step creates very many empty files fails alone, and its cache is cleared', async () => {
    const step = 'RUN mkdir /many; i=0; while [ $i -lt 80000 ]; do : >/many/$i; i=$((i+1)); done; sleep 30';
    await expect(bed.lines([step], { accountId: 'files' })).rejects.toThrow(/more than 51200 files/);
    expect(await bed.caches('files')).toEqual([]);
  }, 180_000);

  it('that forks without end ends alone, while another account builds', async () => {
    const bomb = bed.lines(['RUN i=0; while [ $i -lt 3000 ]; do sleep 271 & i=$((i+1)); done; sleep 271'], { accountId: 'bomb' });
    bomb.catch(() => undefined);
    expect(await bed.lines(['RUN sleep 1; echo beside'], { accountId: 'beside' })).toContain('beside');
    await expect(bomb).rejects.toThrow(/so many processes|exit code 2/);
    expect(await bed.lines(['RUN echo later'], { accountId: 'bomb' })).toContain('later');
  }, 180_000);

  it('whose builder is killed is retried once', async () => {
    const log: string[] = [];
    const building = bed.lines(['RUN echo begun; sleep 3; echo finished'], { accountId: 'killed', log });
    await until('the step runs', () => (log.includes('begun') ? true : undefined));
    for (const id of await bed.builders('killed')) await bed.bed.docker.getContainer(id).kill();
    await building;
    expect(log).toEqual(expect.arrayContaining(['The builder was ended in the middle of the build, which begins again', 'finished']));
  }, 120_000);

  it('ends with its service, and leaves no container behind', async () => {
    const root = resolve(import.meta.dirname, '../../../..');
    const words = ['--import', join(root, 'scripts/typescript.mjs'), join(root, 'test/support/build-and-wait.ts')];
    const { instance, image } = bed.bed;
    const directory = mkdtempSync(join(tmpdir(), 'mooring-build-'));
    writeFileSync(join(directory, 'Dockerfile'), `FROM ${image}\nRUN echo begun; sleep 271\n`);
    const service = spawn(process.execPath, [...words, instance, image, bed.image, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(service, 'exit');
    let printed = '';
    service.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()));
    await until('its step runs', () => (printed.includes('begun') ? true : undefined));
    expect(await bed.builders('service')).toHaveLength(1);
    service.kill('SIGKILL');
    await ended;
    rmSync(directory, { recursive: true });
    await until('its builder is gone', async () => ((await bed.builders('service')).length === 0 ? true : undefined));
  }, 120_000);

  it('of one account in two processes at once has a builder and a cache in each', async () => {
    const another = bed.another();
    try {
      const log: string[] = [];
      const first = bed.lines(['RUN echo begun; sleep 5; echo first'], { accountId: 'twice', log });
      await until('the first build runs', () => (log.includes('begun') ? true : undefined));
      expect(await bed.lines(['RUN echo second'], { accountId: 'twice', runtime: another })).toContain('second');
      await first;
      expect(log).toContain('first');
      expect([(await bed.builders('twice')).length, (await bed.caches('twice')).length]).toEqual([2, 2]);
    } finally {
      await another.close();
    }
    expect(await bed.builders('twice')).toHaveLength(1);
  }, 120_000);

  it('removes a builder that a process created before it died', async () => {
    await bed.lines(['RUN true'], { accountId: 'left' });
    const { instance, docker, image } = bed.bed;
    const left = await docker.createContainer({ Image: image, Labels: { 'mooring.instance': instance, 'mooring.builder': 'left' } });
    const later = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 120_000);
    try {
      await bed.lines(['RUN true'], { accountId: 'next' });
    } finally {
      later.mockRestore();
    }
    await expect(left.inspect()).rejects.toMatchObject({ statusCode: 404 });
    expect(await bed.builders('left')).toHaveLength(1);
  }, 120_000);

  it('of more accounts than there may be caches evicts the least recently used cache', async () => {
    for (const accountId of ['a', 'b', 'c', 'd', 'e', 'f']) await bed.lines(['RUN true'], { accountId });
    expect((await bed.caches()).length).toBeLessThanOrEqual(4);
  }, 180_000);
});
