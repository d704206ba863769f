import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pack } from 'tar-stream';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { firstLines } from '../../../test/contracts/runtime.fixture.contract.ts';
import { runtimeContract } from '../../../test/contracts/runtime.contract.ts';
import { projectContract } from '../../../test/contracts/runtime.projects.contract.ts';
import { probeFiles, request, startCommand } from '../../../test/contracts/runtime.probe.ts';
import type { ImageSource } from '../image-source.ts';
import type { ContainerView } from '../container.ts';
import { RuntimeRefused } from '../runtime.errors.ts';
import type { RunRecord } from './local-container.ts';
import { liveness, markOf } from './processes.ts';
import { containerSpec } from '../../../test/support/container-spec.ts';
import { type LocalUnderTest, localUnderTest } from '../../../test/support/local-under-test.ts';
import { span, untilTrue } from '../../../test/support/until.ts';

runtimeContract('local', localUnderTest);
projectContract('local', localUnderTest);

describe('the local runtime, beyond the contract', () => {
  let under: LocalUnderTest;
  let image: string;

  beforeAll(async () => {
    under = await localUnderTest();
    const source = under.program({ ...probeFiles, 'template.json': '{}' }, startCommand);
    image = (await under.runtime.ensureImage(source, () => undefined, timeoutSignal(5_000))).image;
  });
  afterAll(() => under.close());

  const spec = (environment: Record<string, string> = {}) => containerSpec(image, { environment });

  const folderOf = (handle: string): string => {
    const home = join(under.dataDir, 'local');
    const instance = readdirSync(home).find((name) => name !== 'images') as string;
    return join(home, instance, 'containers', handle);
  };

  const runOf = (handle: string): RunRecord => JSON.parse(readFileSync(join(folderOf(handle), 'run-1.json'), 'utf8')) as RunRecord;

  async function started(environment?: Record<string, string>): Promise<ContainerView> {
    const made = spec(environment);
    const view = await under.runtime.create(made);
    await under.runtime.start(view.handle, made.environment);
    await untilTrue(async () => (await request(await under.runtime.address(view, 8080), 'GET', '/healthz')).status === 200);
    return view;
  }

  const stateOf = async (view: ContainerView) => (await under.runtime.inspect(view.agentId)).containers[0]?.state;

  it('reports missing features, and what to install for images', async () => {
    expect(await under.runtime.capabilities()).toEqual({ freeze: true, isolation: false, images: false });
    for (const source of [
      { kind: 'reference', reference: 'nginx:1', mayUse: async () => true },
      { kind: 'dockerfile', directory: '/', dockerfile: 'Dockerfile', start: null, accountId: 'one' },
    ] as const)
      await expect(under.runtime.ensureImage(source, () => undefined, timeoutSignal(5_000))).rejects.toThrow(
        /install Docker \(Debian: docker\.io\) and start with MOORING_RUNTIME=docker/,
      );
  });

  it('runs the program as it was when its image was made', async () => {
    const source = under.program({ ...probeFiles, 'words.txt': 'first' }, startCommand) as { directory: string } & ImageSource;
    const made = await under.runtime.ensureImage(source, () => undefined, timeoutSignal(5_000));
    writeFileSync(join(source.directory, 'words.txt'), 'second');
    const view = await under.runtime.create({ ...spec(), image: made.image });
    expect(readFileSync(join(folderOf(view.handle), 'root/app/words.txt'), 'utf8')).toBe('first');
    const again = await under.runtime.ensureImage(source, () => undefined, timeoutSignal(5_000));
    expect(again.image).not.toBe(made.image);
  });

  it('leaves the description of a template out of its image', async () => {
    const view = await under.runtime.create(spec());
    expect(readdirSync(join(folderOf(view.handle), 'root/app'))).toEqual(['probe.mjs']);
  });

  it('stores variables in a file that only its owner can read, and in no command line', async () => {
    const view = await started({ SECRET: 'planted-canary' });
    const folder = folderOf(view.handle);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'spec.json')).mode & 0o777).toBe(0o600);
    const { supervisor, agent } = runOf(view.handle);
    const list = [supervisor, agent].map((each) => readFileSync(`/proc/${each?.pid}/cmdline`, 'utf8')).join('');
    expect(list).toContain('supervisor.mjs');
    expect(list).not.toContain('planted-canary');
    const others = readdirSync(folder).filter((name) => name.endsWith('.json') && name !== 'spec.json');
    for (const name of others) expect(readFileSync(join(folder, name), 'utf8')).not.toContain('planted-canary');
  });

  it('does not mistake another process with the same pid for its agent', async () => {
    const view = await started();
    const run = runOf(view.handle);
    await under.runtime.stop(view.handle, 5);
    const bystander = spawn(process.execPath, ['-e', 'setInterval(() => 0, 1000)'], { detached: true, stdio: 'ignore' });
    try {
      rmSync(join(folderOf(view.handle), 'exit-1.json'));
      const reused = { ...run, agent: { ...run.agent, pid: bystander.pid }, supervisor: { ...run.supervisor, pid: bystander.pid } };
      writeFileSync(join(folderOf(view.handle), 'run-1.json'), JSON.stringify(reused));
      expect((await under.runtime.inspect(view.agentId)).containers[0]).toMatchObject({ state: 'exited', exitCode: null });
      await under.runtime.stop(view.handle, 0);
      await under.runtime.remove(view.handle);
      expect(liveness(markOf(bystander.pid as number))).toBe('running');
    } finally {
      bystander.kill('SIGKILL');
    }
  });

  it('still stops an agent whose supervisor was killed', async () => {
    const view = await started({ ON_SIGTERM: 'ignore' });
    const { supervisor, agent } = runOf(view.handle);
    process.kill(supervisor.pid, 'SIGKILL');
    await untilTrue(async () => liveness(supervisor) === 'gone');
    expect(await stateOf(view)).toBe('running');
    await under.runtime.stop(view.handle, 0);
    expect((await under.runtime.inspect(view.agentId)).containers[0]).toMatchObject({ state: 'exited', exitCode: null });
    expect(liveness(agent)).toBe('gone');
  });

  it.each([
    ['under way', ''],
    ['started and not yet recorded', 'CommandRecords.prototype.add = () => new Promise(() => undefined);'],
  ])('finds the agents that a killed service started, and ends the command it had %s', async (_, before) => {
    const [{ agentId }, instance] = [spec(), dirname(dirname(folderOf('x')))];
    const options = { instance: instance.split('/').at(-1), dataDir: under.dataDir };
    const script = `
      import { LocalRuntime } from ${JSON.stringify(new URL('./local-runtime.ts', import.meta.url).href)};
      import { CommandRecords } from ${JSON.stringify(new URL('./command-records.ts', import.meta.url).href)};
      ${before}
      const runtime = await LocalRuntime.open(${JSON.stringify(options)});
      const view = await runtime.create(${JSON.stringify({ ...spec(), agentId })});
      await runtime.start(view.handle, {});
      const beat = 'setInterval(() => require("fs").appendFileSync(process.env.MOORING_VOLUME + "/beats", "x"), 20)';
      void runtime.exec(view.handle, { argv: ['node', '-e', beat], timeoutMs: 600_000, outputLimitBytes: 1 });
      setInterval(() => 0, 1_000);
    `;
    const loader = new URL('../../../scripts/typescript.mjs', import.meta.url).href;
    const service = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', script], { stdio: 'ignore' });
    const handle = `${agentId}-g1`;
    const beats = join(dirname(dirname(folderOf(handle))), 'volumes', agentId, 'beats');
    await untilTrue(() => existsSync(beats));
    service.kill('SIGKILL');
    await once(service, 'exit');
    const next = await under.reopen();
    expect((await next.inspect(agentId)).containers).toMatchObject([{ state: 'running', handle }]);
    await untilTrue(async () => (await request(await next.address({ agentId, generation: 1 }, 8080), 'GET', '/starts')).text === '1');
    // It beats every 20 ms. A beat that had begun when the command was killed may still be written.
    await untilTrue(async () => {
      const { size } = statSync(beats);
      await span(300);
      return statSync(beats).size === size;
    });
    await next.remove(handle);
  });

  it.each([
    [
      'removed while it is frozen',
      async (view: ContainerView) => {
        await under.runtime.freeze(view.handle);
        await under.runtime.remove(view.handle);
      },
    ],
    ['killed', async (view: ContainerView) => process.kill(runOf(view.handle).agent?.pid as number, 'SIGKILL')],
  ])('ends commands that go on and sessions with an agent that is %s', async (_, end) => {
    const view = await started();
    const seconds = String(40_000_000 + Math.floor(Math.random() * 1e6));
    const sleeping = () =>
      spawnSync('pgrep', ['-fx', `sleep ${seconds}`])
        .stdout.toString()
        .trim();
    const argv = ['/bin/sh', '-c', `(setsid sleep ${seconds} &); sleep ${seconds}`];
    const signal = timeoutSignal(10_000);
    await under.runtime.commands.start(view.handle, { commandId: 'one', argv, cwd: null, environment: {} }, signal);
    await under.runtime.exec(view.handle, {
      argv: ['/bin/sh', '-c', `sleep ${seconds} &`],
      timeoutMs: 10_000,
      outputLimitBytes: 100,
      session: 'one',
    });
    await untilTrue(() => sleeping().split('\n').length === 3);
    await end(view);
    await untilTrue(() => sleeping() === '');
  });

  it('limits the stored output of an agent', async () => {
    const line = Buffer.from(`${'y'.repeat(999)}\n`).toString('base64');
    const last = Buffer.from('the end\n').toString('base64');
    const noisy = spec({ EXIT: '0', PRINT: `${line}*45000,${last}` });
    const view = await under.runtime.create(noisy);
    await under.runtime.start(view.handle, noisy.environment);
    await untilTrue(async () => (await stateOf(view)) === 'exited');
    const files = readdirSync(folderOf(view.handle)).filter((name) => name.startsWith('output-'));
    const kept = files.reduce((sum, name) => sum + statSync(join(folderOf(view.handle), name)).size, 0);
    expect(files).toHaveLength(3);
    expect(kept).toBeLessThanOrEqual(30 * 1024 * 1024);
    expect(kept).toBeGreaterThan(20 * 1024 * 1024);
    let text = '';
    let count = 0;
    for await (const entry of under.runtime.logs(view.handle, null, timeoutSignal(20_000))) {
      text = entry.text;
      count += 1;
    }
    expect(text).toBe('the end');
    expect(count).toBeGreaterThan(20_000);
    const gone = { generation: 1, time: '2000-01-01T00:00:00.000000000Z', count: 1 };
    const [told, next] = await firstLines(under.runtime, view.handle, gone, 2);
    expect([told?.text, next?.text]).toEqual([expect.stringContaining('Lines of output may be missing here'), 'y'.repeat(999)]);
    expect(await under.runtime.lastLines(view.handle, 2)).toEqual(['y'.repeat(999), 'the end']);
  });

  it('writes nothing through a link that leads out of the container', async () => {
    const view = await under.runtime.create(spec());
    symlinkSync('/etc', join(folderOf(view.handle), 'root', 'app', 'way-out'));
    const tar = pack();
    tar.entry({ name: 'app/way-out/planted' }, 'x');
    tar.finalize();
    await expect(under.runtime.copyIn(view.handle, '/', Readable.from(tar))).rejects.toThrow(RuntimeRefused);
    expect(existsSync('/etc/planted')).toBe(false);
    const outside = mkdtempSync(join(tmpdir(), 'mooring-outside-'));
    symlinkSync(outside, join(folderOf(view.handle), 'root', 'app', 'deep'));
    symlinkSync('nowhere', join(folderOf(view.handle), 'root', 'app', 'broken'));
    for (const name of ['app/deep/new/planted', 'app/broken/planted']) {
      const nested = pack();
      nested.entry({ name }, 'x');
      nested.finalize();
      await expect(under.runtime.copyIn(view.handle, '/', Readable.from(nested))).rejects.toThrow(RuntimeRefused);
    }
    expect(readdirSync(outside)).toEqual([]);
    rmSync(outside, { recursive: true });
  });
});
