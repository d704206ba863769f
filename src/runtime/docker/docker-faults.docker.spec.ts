import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { timeoutSignal } from '../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../test/support/docker-fixture.ts';
import { PrivateEngine } from '../../../test/support/private-engine.ts';
import { until } from '../../../test/support/until.ts';
import type { RuntimeEvent } from '../runtime.ts';
import { ContainerGone, RuntimeUnavailable } from '../runtime.errors.ts';
import { DockerRuntime } from './docker-runtime.ts';

class Listener {
  readonly seen: RuntimeEvent[] = [];
  private readonly stop = new AbortController();
  private readonly listening: Promise<void>;

  constructor(runtime: DockerRuntime) {
    this.listening = this.listen(runtime);
  }

  private async listen(runtime: DockerRuntime): Promise<void> {
    for await (const event of runtime.events(this.stop.signal)) this.seen.push(event);
  }

  told(kind: RuntimeEvent['kind'], agentId?: string): number {
    return this.seen.filter((event) => event.kind === kind && (event.kind === 'lost' || event.agentId === agentId)).length;
  }

  async close(): Promise<void> {
    this.stop.abort();
    await this.listening;
  }
}

describe('behind our back', () => {
  let bed: DockerFixture;
  let listener: Listener;
  beforeAll(async () => {
    bed = await DockerFixture.open();
    listener = new Listener(bed.runtime);
    await until('the event stream stands', () => (listener.told('lost') > 0 ? true : undefined));
  });
  afterAll(async () => {
    await listener.close();
    await bed.close();
  });

  it('a container that somebody removes is noticed within two seconds', async () => {
    const view = await bed.running();
    await until('the start is told', () => (listener.told('changed', view.agentId) > 0 ? true : undefined));
    listener.seen.length = 0;
    await bed.docker.getContainer(view.handle).remove({ force: true });
    await until('the removal is told', () => (listener.told('changed', view.agentId) > 0 ? true : undefined));
    await expect(bed.runtime.freeze(view.handle)).rejects.toThrow(ContainerGone);
  });

  it('a volume that somebody removes is noticed, and a freeze and a thaw are', async () => {
    const view = await bed.running();
    for (const act of ['pause', 'unpause'] as const) {
      listener.seen.length = 0;
      await bed.docker.getContainer(view.handle)[act]();
      await until(`the ${act} is told`, () => (listener.told('changed', view.agentId) > 0 ? true : undefined));
    }
    await bed.runtime.remove(view.handle);
    await until('the removal is told', () => (listener.told('changed', view.agentId) > 1 ? true : undefined));
    listener.seen.length = 0;
    await bed.docker.getVolume(`mooring-${view.agentId}`).remove();
    await until('the volume’s removal is told', () => (listener.told('changed', view.agentId) > 0 ? true : undefined));
  });

  it('a container that a superseded process creates late is reported at once and found, although it is of an older generation', async () => {
    const view = await bed.running(bed.spec({ generation: 3 }));
    expect((await bed.runtime.inspect(view.agentId, 3)).containers.map(({ generation }) => generation)).toEqual([3]);
    await until('the start is told', () => (listener.told('changed', view.agentId) > 1 ? true : undefined));
    listener.seen.length = 0;
    const superseded = bed.another();
    try {
      await superseded.create(bed.spec({ agentId: view.agentId, generation: 2 }));
    } finally {
      await superseded.close();
    }
    await until('the creation is told', () => (listener.told('changed', view.agentId) > 0 ? true : undefined));
    const found = (await bed.runtime.inspect(view.agentId, 3)).containers.map(({ generation }) => generation);
    expect(new Set(found)).toEqual(new Set([2, 3]));
  });

  it('resources with another instance’s label cause no events', async () => {
    const other = await DockerFixture.open();
    try {
      const theirs = await other.running();
      const ours = await bed.running();
      await until('our start is told', () => (listener.told('changed', ours.agentId) > 0 ? true : undefined));
      expect(listener.told('changed', theirs.agentId)).toBe(0);
    } finally {
      await other.close();
    }
  });

  it('no connection to the engine is left by commands whose callers went away', async () => {
    const view = await bed.running();
    const isConnection = (kind: string) => kind === 'PipeWrap' || kind === 'TCPSocketWrap';
    const connections = () => process.getActiveResourcesInfo().filter(isConnection).length;
    const before = connections();
    for (let caller = 0; caller < 5; caller += 1) {
      const leaving = new AbortController();
      const gone = new Error('the caller has gone');
      const request = { argv: ['sh', '-c', 'echo begun; sleep 283'], timeoutMs: 60_000, outputLimitBytes: 100 };
      const onOutput = () => leaving.abort(gone);
      await expect(bed.runtime.exec(view.handle, { ...request, signal: leaving.signal, onOutput })).rejects.toBe(gone);
    }
    await until('no connection is left', () => (connections() <= before ? true : undefined));
  });

  it('a command ends with the service that started it, even when that is killed', async () => {
    const view = await bed.running();
    const source = `
      import { createSecretKey } from 'node:crypto';
      import { DockerRuntime } from './src/runtime/docker/docker-runtime.ts';
      const runtime = new DockerRuntime({
        instance: '${bed.instance}', containerKey: createSecretKey('${bed.instance}', 'utf8'), helperImage: null, ociRuntime: null, egress: 'all',
      });
      await runtime.exec('${view.handle}', { argv: ['sleep', '281'], timeoutMs: 280_000, outputLimitBytes: 10 });`;
    const service = spawn(process.execPath, ['--import', './scripts/typescript.mjs', '--input-type=module', '-e', source], {
      stdio: 'inherit',
    });
    const sleeping = async () => ((await bed.output(view, 'ps')).includes('sleep 281') ? true : undefined);
    await until('the command runs', sleeping);
    service.kill('SIGKILL');
    await once(service, 'exit');
    await until('the command has ended', async () => ((await sleeping()) ? undefined : true));
  });
});

describe('an engine that goes and comes back', () => {
  it('is unavailable meanwhile; afterwards everything continues, and the gap in the events is reported', async () => {
    const engine = await PrivateEngine.open();
    try {
      await engine.start();
      const bed = await DockerFixture.open(engine.docker);
      const view = await bed.running({ command: ['/bin/busybox', 'sh', '-c', 'echo line; exec sleep 300'] });
      const listener = new Listener(bed.runtime);
      await until('the event stream stands', () => (listener.told('lost') === 1 ? true : undefined));
      await engine.stop();
      // An answer is trusted for a second, and the engine may have answered right before its end.
      await until('the engine is known to be gone', async () => ((await bed.runtime.available()) ? undefined : true));
      for (const act of [
        () => bed.runtime.ping(),
        () => bed.runtime.inspect(view.agentId),
        () => bed.runtime.list(),
        () => bed.runtime.create(bed.spec()),
        () => bed.runtime.start(view.handle, {}),
        () => bed.runtime.stop(view.handle, 1),
        () => bed.runtime.freeze(view.handle),
        () => bed.runtime.transitions(view.handle, new Date().toISOString()),
        () => bed.runtime.remove(view.handle),
        () => bed.runtime.address(view, 8080),
        () => bed.runtime.ensureVolume(view.agentId),
        () => bed.run(view, 'true'),
        () => bed.runtime.logs(view.handle, null, timeoutSignal(5_000))[Symbol.asyncIterator]().next(),
        () =>
          bed.runtime.ensureImage(
            { kind: 'reference', reference: bed.image, mayUse: async () => true },
            () => undefined,
            timeoutSignal(5_000),
          ),
      ])
        await expect(act()).rejects.toThrow(RuntimeUnavailable);
      await engine.start();
      await until('the engine is known to be back', async () => ((await bed.runtime.available()) ? true : undefined));
      await until('the gap is told', () => (listener.told('lost') === 2 ? true : undefined));
      const told = listener.seen.filter(({ kind }) => kind === 'lost');
      expect(told).toEqual([{ kind: 'lost' }, { kind: 'lost', since: expect.any(Date) }]);
      const ended = await bed.state(view);
      expect(ended).toMatchObject({ state: 'exited', generation: 1, finishedAt: expect.stringMatching(/^20/) });
      // The engine has forgotten what it told before, and knows of the container itself when its run began and ended.
      expect(Date.parse(ended?.finishedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(ended?.startedAt ?? ''));
      expect(await bed.runtime.transitions(view.handle, ended?.startedAt ?? '')).toEqual([]);
      await bed.runtime.start(view.handle, {});
      expect(await bed.output(view, 'echo well')).toBe('well\n');
      await listener.close();
      await bed.close();
    } finally {
      await engine.close();
    }
  });

  it('an engine whose machine went down reports at its return that its containers ended, with its own exit code', async () => {
    const engine = await PrivateEngine.open();
    try {
      await engine.start();
      const bed = await DockerFixture.open(engine.docker);
      const view = await bed.running();
      await engine.crash();
      const down = new Date().toISOString();
      await engine.start();
      const ended = await until('the engine is back', async () => bed.state(view).catch(() => undefined));
      expect(ended).toMatchObject({ state: 'exited', exitCode: 255 });
      expect((ended.finishedAt ?? '') > down).toBe(true);
      expect(await bed.runtime.transitions(view.handle, ended.startedAt ?? '')).toEqual([]);
      await bed.close();
    } finally {
      await engine.close();
    }
  });
});
