import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import type { ImageSource } from '../../image-source.ts';
import { DockerRuntime } from '../docker-runtime.ts';
import { BUILD_PIDS_MAX } from './build-holder.ts';

/** More processes than a build may have. They only sleep. */
const BOMB_PROCESSES = 2_000;

describe('a build by the engine’s own builder', () => {
  let bed: DockerFixture;
  let runtime: DockerRuntime;
  let folder: string;
  let log: string[];

  beforeAll(async () => {
    bed = await DockerFixture.open();
    const { docker, instance, containerKey } = bed;
    runtime = new DockerRuntime({
      instance,
      containerKey,
      docker,
      helperImage: null,
      ociRuntime: null,
      egress: 'internet',
      builder: 'engine',
    });
  });
  afterAll(async () => {
    await runtime?.close();
    await bed?.close();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-build-'));
    log = [];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const source = (): ImageSource => ({
    kind: 'dockerfile',
    directory: folder,
    accountId: 'one',
    dockerfile: 'Dockerfile',
    start: ['true'],
  });
  const write = (...steps: string[]) => writeFileSync(join(folder, 'Dockerfile'), [`FROM ${bed.image}`, ...steps, ''].join('\n'));
  const build = (signal = timeoutSignal(120_000)) => runtime.ensureImage(source(), (line) => log.push(line), signal);
  /** The networks and the containers of builds. */
  const ofBuilds = async () => {
    const filters = { label: [`mooring.instance=${bed.instance}`, 'mooring.build'] };
    const networks = await bed.docker.listNetworks({ filters });
    const holders = await bed.docker.listContainers({ all: true, filters });
    return { networks, holders };
  };
  const nothingIsLeft = async () => {
    const { networks, holders } = await ofBuilds();
    return networks.length + holders.length === 0 ? true : undefined;
  };
  const stepWith = (word: string): Promise<Dockerode.ContainerInspectInfo> =>
    until('the build runs its step', async () => {
      const found = (await bed.docker.listContainers()).find(({ Command }) => Command.includes(word));
      return found === undefined ? undefined : bed.docker.getContainer(found.Id).inspect();
    });

  it('has a network of its own, with no agent on it and no way to one, and bounds of processors, memory and processes', async () => {
    const agent = await bed.running();
    const { host } = await bed.runtime.address(agent, 80);
    // On a link with the agent, its address would be resolved, whatever is refused of IP.
    write(
      'RUN cat /proc/self/cgroup',
      `RUN busybox arping -c 2 -w 2 -I eth0 ${host} || echo nobody answered`,
      'RUN : step311; until [ -e /go ]; do sleep 1; done',
    );
    const cancel = new AbortController();
    const building = build(cancel.signal);
    building.catch(() => undefined);
    try {
      const step = await stepWith('step311');
      const { networks, holders } = await ofBuilds();
      expect(networks).toHaveLength(1);
      const network: Dockerode.NetworkInspectInfo = await bed.docker.getNetwork(networks[0]?.Id ?? '').inspect();
      expect(network).toMatchObject({
        Options: { 'com.docker.network.bridge.enable_icc': 'false' },
        Containers: { [step.Id]: expect.anything() },
      });
      expect(Object.keys(network.Containers ?? {})).toEqual([step.Id]);
      const holder = holders[0]?.Id ?? '';
      expect(step.HostConfig).toMatchObject({
        NetworkMode: network.Name,
        CgroupParent: `/docker/${holder}`,
        CpuPeriod: 100_000,
        Memory: 4 * 1024 ** 3,
      });
      expect(step.HostConfig.CpuQuota).toBeGreaterThanOrEqual(100_000);
      expect(log.join('\n')).toContain(`:/docker/${holder}/`);
      expect(log.join('\n')).toMatch(/Sent 2 probe[^]*nobody answered/);
      expect(await outputOf(holder, '/.mooring/busybox', 'cat', '/sys/fs/cgroup/pids/pids.max')).toContain(String(BUILD_PIDS_MAX));
    } finally {
      cancel.abort(new Error('called off'));
      await expect(building).rejects.toThrow('called off');
    }
    await until('nothing of the build is left', nothingIsLeft);
  });

  /** Runs a program in a container and returns its output. */
  const outputOf = async (id: string, ...argv: string[]): Promise<string> => {
    const exec = await bed.docker.getContainer(id).exec({ Cmd: argv, AttachStdout: true });
    const stream = await exec.start({});
    let text = '';
    for await (const chunk of stream) text += String(chunk);
    return text;
  };

  it('that forks without end fails alone, and agents continue', async () => {
    const agent = await bed.running();
    write(`RUN i=0; while [ $i -lt ${BOMB_PROCESSES} ]; do sleep 100 & i=$((i+1)); done; echo all $i were made`);
    const building = build();
    building.catch(() => undefined);
    const said = () => (log.some((line) => line.includes("can't fork")) ? true : undefined);
    await until('the build is refused more processes', said, { timeoutMs: 60_000 });
    expect(await bed.output(agent, 'echo well')).toBe('well\n');
    await expect(building).rejects.toThrow(/returned a non-zero code/);
    expect(log.join('\n')).not.toMatch(/all \d+ were made/);
    await until('nothing of the build is left', nothingIsLeft);
  });

  it('leaves nothing behind, whether it succeeds or fails', async () => {
    write('RUN echo well');
    await build();
    await until('nothing of the build is left', nothingIsLeft);
    write('RUN false');
    await expect(build()).rejects.toThrow(/non-zero code/);
    await until('nothing of the build is left', nothingIsLeft);
  });

  it('of a service that was killed leaves nothing once another one uses the engine', async () => {
    write('RUN : step313; until [ -e /go ]; do sleep 1; done');
    const script = `
      import { createSecretKey } from 'node:crypto';
      import { DockerRuntime } from ${JSON.stringify(new URL('../docker-runtime.ts', import.meta.url).href)};
      const containerKey = createSecretKey('${bed.instance}', 'utf8');
      const runtime = new DockerRuntime({ instance: '${bed.instance}', containerKey, helperImage: null, ociRuntime: null, egress: 'all', builder: 'engine' });
      await runtime.ensureImage(${JSON.stringify(source())}, () => undefined, new AbortController().signal);
    `;
    const loader = new URL('../../../../scripts/typescript.mjs', import.meta.url).href;
    const service = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: 'ignore' });
    await stepWith('step313');
    service.kill('SIGKILL');
    await once(service, 'exit');
    expect((await ofBuilds()).networks).toHaveLength(1);
    const stop = new AbortController();
    const another = bed.another();
    const listening = (async () => {
      for await (const event of another.events(stop.signal)) void event;
    })();
    try {
      await until('nothing of the build is left', nothingIsLeft, { timeoutMs: 30_000 });
    } finally {
      stop.abort();
      await listening;
      await another.close();
    }
  });

  it('continues while another service removes leftovers', async () => {
    write('RUN : step317; until [ -e /go ]; do sleep 1; done', 'RUN echo well');
    const building = build();
    const step = await stepWith('step317');
    const stop = new AbortController();
    const another = bed.another();
    const events = another.events(stop.signal)[Symbol.asyncIterator]();
    await events.next();
    // A build of the other one looks for it as well, and is done after that.
    const other = new DockerRuntime({
      instance: bed.instance,
      containerKey: bed.containerKey,
      docker: bed.docker,
      helperImage: null,
      ociRuntime: null,
      egress: 'all',
      builder: 'engine',
    });
    const elsewhere = mkdtempSync(join(tmpdir(), 'mooring-build-'));
    writeFileSync(join(elsewhere, 'Dockerfile'), `FROM ${bed.image}\nRUN echo elsewhere\n`);
    await other.ensureImage({ ...source(), directory: elsewhere } as ImageSource, () => undefined, timeoutSignal(60_000));
    await other.close();
    rmSync(elsewhere, { recursive: true });
    await outputOf(step.Id, '/bin/busybox', 'sh', '-c', '> /go');
    await building;
    expect(log).toContain('well');
    stop.abort();
    await events.return?.(undefined);
    await another.close();
  });
});
