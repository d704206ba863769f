import { execFileSync } from 'node:child_process';
import { realpath } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { closeAll } from '../../../../test/support/close-all.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { PrivateEngine } from '../../../../test/support/private-engine.ts';
import { until } from '../../../../test/support/until.ts';
import type { ContainerView } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { DockerRuntime } from '../docker-runtime.ts';
import { tarOf } from '../image-sources/build-context.ts';
import { fixedEntries, machineProgram } from '../image-sources/machine-programs.ts';
import { importImage } from '../image-sources/registry.ts';
import { catProgram, nftProgram, nodeProgram } from './egress-images.ts';

const given = 'mooring-test-egress:1';
const listed = { egress: { allow: ['somewhere.example'] } };
const webPort = 8080;
const server = { command: ['/bin/busybox', 'httpd', '-f', '-p', String(webPort), '-h', '/www'] };

jest.setTimeout(120_000);

describe('an engine on which agents are reached by published ports', () => {
  let engine: PrivateEngine;
  let bed: DockerFixture;

  beforeAll(async () => {
    engine = await PrivateEngine.open();
    await engine.start();
    bed = await DockerFixture.open(engine.docker, 'internet', 'published');
    await importPrograms(engine.docker);
  });
  afterAll(() => closeAll(bed?.runtime, engine));

  /** Imports an image such as an operator may give, which has a user and a check of its own. */
  async function importPrograms(docker: Dockerode): Promise<void> {
    const programs = { [nftProgram]: '/usr/sbin/nft', [catProgram]: '/bin/cat', [nodeProgram]: process.execPath };
    const entries = [...fixedEntries()];
    for (const [name, path] of Object.entries(programs)) entries.push(...(await machineProgram(await realpath(path), name.slice(1))));
    const tar = tarOf([...new Map(entries.map((entry) => [entry.name, entry])).values()]);
    await importImage(docker, tar, given, ['USER 10001:10001', 'CMD ["node", "none.js"]', 'VOLUME /data'], timeoutSignal(60_000));
  }

  async function withImage(egressImage: string, work: (runtime: DockerRuntime) => Promise<void>): Promise<void> {
    const { instance, containerKey, docker } = bed;
    const common = { instance, containerKey, docker, helperImage: null, ociRuntime: null };
    const runtime = new DockerRuntime({ ...common, egress: 'internet', addresses: 'published', egressImage });
    try {
      await work(runtime);
    } finally {
      await runtime.close();
    }
  }

  const gets = (agent: ContainerView) => bed.output(agent, 'wget -q -O - http://other.example/ 2>&1');
  const forbidden = async (agent: ContainerView) => ((await gets(agent)).includes('403') ? true : undefined);

  it('enforces the rules with the programs of the operator’s image', async () => {
    await withImage(given, async (runtime) => {
      const made = await runtime.create(bed.spec({ ...server, ...listed }));
      await runtime.start(made.handle, {});
      expect(await runtime.egress()).toMatchObject({ lack: null, linkLack: null, proxyLack: null });
      await until('the proxy refuses what is not on the list', () => forbidden(made));
      const proxy = await engine.docker.getContainer(`mooring-${bed.instance}-egress-proxy`).inspect();
      expect(proxy.Image).toBe((await engine.docker.getImage(given).inspect()).Id);
      await runtime.remove(made.handle);
    });
  });

  it('refuses to start an agent with a restricted egress if the rules can’t be loaded', async () => {
    const [none, list] = [await bed.runtime.create(bed.spec({ egress: 'none' })), await bed.runtime.create(bed.spec(listed))];
    await withImage('mooring-test-none:1', async (runtime) => {
      const sentence = /The image mooring-test-none:1|registry of mooring-test-none:1/;
      await expect(runtime.create(bed.spec({ egress: 'none' }))).rejects.toThrow(
        /can't be kept from what it may not reach.*mooring-test-none:1/,
      );
      await expect(runtime.create(bed.spec(listed))).rejects.toThrow(/can't be held to a list of names.*mooring-test-none:1/);
      for (const { handle } of [none, list]) await expect(runtime.start(handle, {})).rejects.toThrow(RuntimeRefused);
      expect(await runtime.egress()).toMatchObject({ lack: expect.stringMatching(sentence), linkLack: expect.stringMatching(sentence) });
      const free = await runtime.create(bed.spec());
      await runtime.start(free.handle, {});
      await runtime.remove(free.handle);
    });
    expect((await bed.runtime.list()).containers.map(({ state }) => state)).toEqual(['created', 'created']);
    for (const { handle } of [none, list]) {
      await bed.runtime.start(handle, {});
      await bed.runtime.remove(handle);
    }
  });

  it('knows the agents’ ports again after somebody took the rules away, though the service itself can’t send to them', async () => {
    const [program = '', ...words] = engine.inside;
    const nft = (...more: string[]) => execFileSync(program, [...words, 'nft', ...more], { encoding: 'utf8' });
    const agent = await bed.running();
    const table = ['bridge', `mooring_${bed.instance}`];
    nft('delete', 'table', ...table);
    await withImage(given, async (runtime) => void (await runtime.egress()));
    expect(nft('list', 'set', ...table, 'ports')).toMatch(/elements = .*veth/);
    await bed.runtime.remove(agent.handle);
  });

  it('has one proxy for agents with a list, also for those that were made when agents were reached by their own addresses', async () => {
    const { instance, containerKey, docker } = bed;
    const common = { instance, containerKey, docker, helperImage: null, ociRuntime: null };
    const before = new DockerRuntime({ ...common, egress: 'internet', addresses: 'container' });
    const older = await before.create(bed.spec(listed));
    await before.start(older.handle, {});
    const newer = await bed.running(listed);
    for (const agent of [older, newer]) await until('the proxy refuses what is not on the list', () => forbidden(agent));
    for (const { handle } of [older, newer]) await bed.runtime.remove(handle);
    await before.close();
  });
});
