import { randomUUID } from 'node:crypto';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import { pause } from '../../src/kernel/async/pause.ts';
import { base64, eventually, linesOf, firstLines, say, silent, tarOf, type RuntimeFixture } from './runtime.fixture.contract.ts';
import { ContainerGone, ImageGone, RuntimeRefused, ShellCommand } from '../../src/runtime/runtime.errors.ts';
import { probeFiles, request, startCommand } from './runtime.probe.ts';

export function creation(bed: RuntimeFixture): void {
  it('builds the same image from the same program', async () => {
    const again = await bed.ensureImage();
    expect([again.image, again.command]).toEqual([bed.image.image, bed.image.command]);
    expect(again.command.at(-1)).toBe(startCommand.at(-1));
  });

  it('builds another image from another program', async () => {
    const source = bed.under.program({ ...probeFiles, 'more.txt': 'more' }, startCommand);
    const other = await bed.runtime.ensureImage(source, () => undefined, timeoutSignal(100_000));
    expect(other.image).not.toBe(bed.image.image);
  });

  it('finds the unchanged image of an earlier deployment, without building it', async () => {
    const earlier = { kind: 'earlier' as const, earlier: bed.image };
    expect(await bed.runtime.ensureImage(earlier, () => undefined, timeoutSignal(100_000))).toEqual(bed.image);
    const gone = { ...bed.image, image: bed.image.image.replace(/[0-9a-f]{12}$/, '0'.repeat(12)) };
    await expect(bed.runtime.ensureImage({ ...earlier, earlier: gone }, () => undefined, timeoutSignal(100_000))).rejects.toThrow(
      ImageGone,
    );
  });

  it('refuses a start command that is a shell string', async () => {
    const source = bed.under.program(probeFiles, ['sh', '-c', 'node probe.mjs']);
    await expect(bed.runtime.ensureImage(source, () => undefined, timeoutSignal(100_000))).rejects.toThrow(ShellCommand);
  });

  it('creates a container that is not started', async () => {
    const view = await bed.created();
    expect(view).toMatchObject({ state: 'created', generation: 1, exitCode: null, oomKilled: false, startedAt: null });
    expect(await bed.runtime.inspect(view.agentId)).toEqual({ containers: [view], volume: true });
  });

  it('adopts an existing container, also for two concurrent calls', async () => {
    const spec = bed.spec();
    await Promise.all([bed.runtime.ensureVolume(spec.agentId), bed.runtime.ensureVolume(spec.agentId)]);
    const [first, second] = await Promise.all([bed.runtime.create(spec), bed.runtime.create(spec)]);
    const third = await bed.runtime.create(spec);
    expect(second).toEqual(first);
    expect(third).toEqual(first);
    expect((await bed.runtime.inspect(spec.agentId)).containers).toHaveLength(1);
  });

  it('refuses a missing image', async () => {
    const spec = bed.spec({}, { image: 'f'.repeat(64) });
    await bed.runtime.ensureVolume(spec.agentId);
    await expect(bed.runtime.create(spec)).rejects.toThrow(RuntimeRefused);
    expect((await bed.runtime.inspect(spec.agentId)).containers).toEqual([]);
  });

  it('refuses to start a missing program, or ends it at once with the exit code 127', async () => {
    const view = await bed.created({}, { command: ['no-such-program-anywhere'] });
    const started = await bed.start(view).catch((error: unknown) => error);
    if (started !== true) {
      expect(started).toBeInstanceOf(RuntimeRefused);
      expect((await bed.inspect(view)).state).not.toBe('running');
    } else await eventually(async () => expect(await bed.inspect(view)).toMatchObject({ state: 'exited', exitCode: 127 }));
  });

  it('lists the containers and volumes of this instance only', async () => {
    const other = await bed.another();
    try {
      const mine = await bed.created();
      const here = await bed.runtime.list();
      const { agentId, generation, deploymentId, handle, state } = mine;
      expect(here.containers).toContainEqual(expect.objectContaining({ agentId, generation, deploymentId, handle, state }));
      expect(here.volumes).toContain(mine.agentId);
      expect(await other.runtime.list()).toEqual({ containers: [], volumes: [] });
      expect(await other.runtime.inspect(mine.agentId)).toEqual({ containers: [], volume: false });
    } finally {
      await other.close();
    }
  });

  it('finds the containers of all generations up to the requested one', async () => {
    const first = await bed.created();
    const { agentId } = first;
    const second = await bed.created({}, { agentId, generation: 2 });
    const generations = async (wanted?: number) =>
      (await bed.runtime.inspect(agentId, wanted)).containers.map(({ generation }) => generation).toSorted((a, b) => a - b);
    for (const wanted of [2, 3, 40, undefined]) expect(await generations(wanted)).toEqual([1, 2]);
    await bed.runtime.remove(first.handle);
    expect(await generations(3)).toEqual([2]);
    await bed.runtime.remove(second.handle);
    expect(await generations(3)).toEqual([]);
    await bed.created({}, { agentId, generation: 3 });
    expect(await generations(3)).toEqual([3]);
  });

  it('finds an older container that another process created late, once all containers were listed', async () => {
    const { agentId } = await bed.created({}, { generation: 3 });
    expect((await bed.runtime.inspect(agentId, 3)).containers).toHaveLength(1);
    const other = await bed.under.reopen();
    try {
      await other.create(bed.spec({}, { agentId, generation: 2 }));
      await bed.runtime.list();
      expect((await bed.runtime.inspect(agentId, 3)).containers.map(({ generation }) => generation)).toEqual([2, 3]);
    } finally {
      await other.close();
    }
  });

  it('reports that the engine is available', async () => {
    expect(await bed.runtime.available()).toBe(true);
  });

  it('returns no containers and no volume for an unknown agent', async () => {
    expect(await bed.runtime.inspect(randomUUID())).toEqual({ containers: [], volume: false });
  });
}

export function lifecycle(bed: RuntimeFixture): void {
  it('runs once it is started, and responds on its port', async () => {
    const view = await bed.created();
    expect(await bed.start(view)).toBe(true);
    expect(await bed.start(view)).toBe(false);
    const now = await bed.inspect(view);
    expect(now).toMatchObject({ state: 'running', exitCode: null });
    expect(Math.abs(Date.parse(now.startedAt as string) - Date.now())).toBeLessThan(60_000);
  });

  it('is started once by two concurrent calls', async () => {
    const view = await bed.created();
    await Promise.all([bed.start(view), bed.start(view)]);
    await bed.answers(view);
    expect((await bed.ask(view, 'GET', '/starts')).text).toBe('1');
  });

  it('gives the program its environment, port and volume', async () => {
    const odd = 'line 1\nline 2 = "quoted" $HOME `x` \\ ü';
    const view = await bed.running({ GREETING: 'hello', ODD: odd });
    const { environment, listening } = JSON.parse((await bed.ask(view, 'GET', '/environment')).text) as {
      environment: Record<string, string>;
      listening: number;
    };
    expect(environment).toMatchObject({ GREETING: 'hello', ODD: odd });
    expect(environment.PORT).toBe(String(listening));
    await bed.ask(view, 'PUT', '/file/note', 'kept');
    expect((await bed.ask(view, 'GET', '/file/note')).text).toBe('kept');
  });

  it('has its agent’s host name, which later containers have, too', async () => {
    const hostNameOf = async (agentId: string, generation: number) => {
      const view = await bed.running({}, { agentId, generation });
      const { environment } = JSON.parse((await bed.ask(view, 'GET', '/environment')).text) as { environment: Record<string, string> };
      await bed.runtime.remove(view.handle);
      return environment.HOSTNAME ?? '';
    };
    const [one, other] = [randomUUID(), randomUUID()];
    const first = await hostNameOf(one, 1);
    expect(first).toMatch(/^agent-[0-9a-f]+$/);
    expect(await hostNameOf(one, 2)).toBe(first);
    expect(await hostNameOf(other, 1)).not.toBe(first);
  });

  it('does not pass the service’s own variables to the program', async () => {
    process.env.PLANTED_FOR_THE_CONTRACT = 'secret of the service';
    try {
      const view = await bed.running();
      expect((await bed.ask(view, 'GET', '/environment')).text).not.toContain('secret of the service');
    } finally {
      delete process.env.PLANTED_FOR_THE_CONTRACT;
    }
  });

  it('runs a given command instead of the image’s own', async () => {
    const view = await bed.running({}, { command: [...startCommand, 'another word'] });
    expect(JSON.parse((await bed.ask(view, 'GET', '/environment')).text)).toMatchObject({ words: ['another word'] });
  });

  it('keeps only the volume for a new generation', async () => {
    const first = await bed.running();
    await bed.ask(first, 'PUT', '/file/note', 'kept');
    await bed.runtime.remove(first.handle);
    const second = await bed.running({}, { agentId: first.agentId, generation: 2 });
    expect((await bed.ask(second, 'GET', '/file/note')).text).toBe('kept');
    expect((await bed.ask(second, 'GET', '/count')).text).toBe('1');
    expect((await bed.runtime.inspect(first.agentId)).containers.map(({ generation }) => generation)).toEqual([2]);
  });

  it('removes a volume, twice', async () => {
    const view = await bed.removed();
    await bed.runtime.removeVolume(view.agentId);
    await bed.runtime.removeVolume(view.agentId);
    expect(await bed.runtime.inspect(view.agentId)).toEqual({ containers: [], volume: false });
    expect((await bed.runtime.list()).volumes).not.toContain(view.agentId);
  });

  it('stops by SIGTERM, and lets the program finish', async () => {
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.runtime.stop(view.handle, 10);
    expect(await bed.inspect(view)).toMatchObject({ state: 'exited', exitCode: 7 });
    await bed.runtime.stop(view.handle, 10);
    await bed.start(view);
    await bed.answers(view);
    expect((await bed.ask(view, 'GET', '/file/sigterm')).text).toBe('seen');
  });

  it('kills a program that ignores SIGTERM after the grace period', async () => {
    const view = await bed.running({ ON_SIGTERM: 'ignore' });
    const begun = performance.now();
    await bed.runtime.stop(view.handle, 1);
    expect(performance.now() - begun).toBeGreaterThanOrEqual(950);
    expect(await bed.inspect(view)).toMatchObject({ state: 'exited', exitCode: 137 });
  });

  it('starts again after a stop, with the same volume and fresh memory', async () => {
    const view = await bed.running();
    await bed.ask(view, 'GET', '/count');
    await bed.runtime.stop(view.handle, 5);
    await expect(bed.runtime.address(view, 8080)).rejects.toThrow(RuntimeRefused);
    await bed.start(view);
    await bed.answers(view);
    expect((await bed.ask(view, 'GET', '/count')).text).toBe('1');
    expect((await bed.ask(view, 'GET', '/starts')).text).toBe('2');
    expect(await bed.inspect(view)).toMatchObject({ state: 'running', exitCode: null });
  });

  it('starts again with the variables of the new start', async () => {
    const view = await bed.running({ GREETING: 'hello', OLD: 'yes' });
    await bed.runtime.stop(view.handle, 5);
    await bed.runtime.start(view.handle, { PORT: '8080', MOORING_VOLUME: '/data', GREETING: 'good evening' });
    await bed.answers(view);
    const { environment } = JSON.parse((await bed.ask(view, 'GET', '/environment')).text) as { environment: Record<string, string> };
    expect(environment.GREETING).toBe('good evening');
    expect(environment).not.toHaveProperty('OLD');
  });

  it.each([
    ['', 'finish'],
    ['/apart', 'finish'],
    ['/apart', 'ignore'],
  ])('ends what the program left running%s, where it would %s', async (session, onStop) => {
    const view = await bed.running({ ON_SIGTERM: onStop });
    await bed.ask(view, 'POST', `/child${session}`);
    await bed.runtime.stop(view.handle, onStop === 'ignore' ? 1 : 5);
    await bed.start(view);
    await bed.answers(view);
    expect((await silent(bed, view)).length).toBeGreaterThan(0);
  });

  it('reports the exit code of a program that ends by itself', async () => {
    expect(await bed.ended({ EXIT: '3' })).toMatchObject({ state: 'exited', exitCode: 3, oomKilled: false });
    expect(await bed.ended({ EXIT: '0' })).toMatchObject({ state: 'exited', exitCode: 0 });
  });

  it('removes a running container, and does nothing for one that is gone', async () => {
    const view = await bed.running();
    await bed.runtime.remove(view.handle);
    await bed.runtime.remove(view.handle);
    expect(await bed.runtime.inspect(view.agentId)).toEqual({ containers: [], volume: true });
  });

  it('reports that a container is gone', async () => {
    const view = await bed.removed();
    const { handle } = view;
    await expect(bed.runtime.start(handle, {})).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.stop(handle, 1)).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.freeze(handle)).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.thaw(handle)).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.exec(handle, say('x'))).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.copyIn(handle, '/', tarOf({}))).rejects.toThrow(ContainerGone);
    await expect(bed.runtime.address(view, 8080)).rejects.toThrow(ContainerGone);
    await expect(linesOf(bed.runtime, handle)).rejects.toThrow(ContainerGone);
  });
}

export function sleep(bed: RuntimeFixture): void {
  const freezes = async () => (await bed.runtime.capabilities()).freeze;

  it('keeps the memory of a frozen agent, which does not respond until it is thawed', async () => {
    if (!(await freezes())) return;
    const view = await bed.running();
    await bed.ask(view, 'GET', '/count');
    const address = await bed.runtime.address(view, 8080);
    await bed.runtime.freeze(view.handle);
    await bed.runtime.freeze(view.handle);
    expect((await bed.inspect(view)).state).toBe('frozen');
    await expect(bed.runtime.address(view, 8080)).rejects.toThrow(RuntimeRefused);
    const waiting = request(address, 'GET', '/count');
    expect(await Promise.race([waiting, pause(300).then(() => 'no answer')])).toBe('no answer');
    await bed.runtime.thaw(view.handle);
    await bed.runtime.thaw(view.handle);
    expect((await waiting).text).toBe('2');
    expect((await bed.inspect(view)).state).toBe('running');
    expect((await bed.ask(view, 'GET', '/starts')).text).toBe('1');
  });

  it('stops a frozen agent as it stops a running one', async () => {
    if (!(await freezes())) return;
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.runtime.freeze(view.handle);
    await bed.runtime.stop(view.handle, 10);
    expect(await bed.inspect(view)).toMatchObject({ state: 'exited', exitCode: 7 });
  });

  it('removes a frozen agent', async () => {
    if (!(await freezes())) return;
    const view = await bed.running();
    await bed.runtime.freeze(view.handle);
    await bed.runtime.remove(view.handle);
    expect((await bed.runtime.inspect(view.agentId)).containers).toEqual([]);
  });

  it('leaves an agent that it can’t freeze as it is, so that it can be stopped', async () => {
    if (await freezes()) return;
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.ask(view, 'GET', '/count');
    await expect(bed.runtime.freeze(view.handle)).rejects.toThrow(RuntimeRefused);
    expect((await bed.inspect(view)).state).toBe('running');
    expect((await bed.ask(view, 'GET', '/count')).text).toBe('2');
    await bed.runtime.stop(view.handle, 10);
    expect(await bed.inspect(view)).toMatchObject({ state: 'exited', exitCode: 7 });
    await bed.start(view);
    await bed.answers(view);
    expect((await bed.ask(view, 'GET', '/starts')).text).toBe('2');
  });

  it('refuses to freeze or thaw a container that does not run', async () => {
    if (!(await freezes())) return;
    const view = await bed.created();
    await expect(bed.runtime.freeze(view.handle)).rejects.toThrow(RuntimeRefused);
    await expect(bed.runtime.thaw(view.handle)).rejects.toThrow(RuntimeRefused);
  });
}

export function processes(bed: RuntimeFixture): void {
  it('freezes processes in other sessions, too, and kills them when the container is removed', async () => {
    if (!(await bed.runtime.capabilities()).freeze) return;
    const view = await bed.running();
    const beats = async (of = view) => (await bed.ask(of, 'GET', '/file/beats')).text;
    await bed.ask(view, 'POST', '/child/apart');
    await bed.runtime.freeze(view.handle);
    // The child sends 20 heartbeats in this time, and records a pause that is longer than it should be.
    await pause(600);
    await bed.runtime.thaw(view.handle);
    await eventually(async () => expect(await beats()).toMatch(/_x/));
    await bed.runtime.remove(view.handle);
    const next = await bed.running({}, { agentId: view.agentId, generation: 2 });
    expect((await silent(bed, next)).length).toBeGreaterThan(0);
  });
}

export function adoption(bed: RuntimeFixture): void {
  it('finds the agents still running, and controls them', async () => {
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.ask(view, 'GET', '/count');
    const before = await bed.inspect(view);
    const next = await bed.under.reopen();
    try {
      expect(await bed.inspect(view, next)).toEqual(before);
      const { handle, state } = before;
      expect((await next.list()).containers).toContainEqual(expect.objectContaining({ handle, state }));
      expect((await bed.ask(view, 'GET', '/count', undefined, next)).text).toBe('2');
      expect((await next.exec(view.handle, say('hi'))).stdout.toString()).toBe('hi');
      await bed.ask(view, 'POST', '/print/stdout', 'to the new one\n', next);
      const seen = await firstLines(next, view.handle, null, 1);
      expect(seen.map(({ text }) => text)).toEqual(['to the new one']);
      await next.stop(view.handle, 10);
      expect(await bed.inspect(view, next)).toMatchObject({ state: 'exited', exitCode: 7 });
      await next.remove(view.handle);
      expect((await bed.runtime.inspect(view.agentId)).containers).toEqual([]);
    } finally {
      await next.close();
    }
  });

  it('notices a container that ended while the service was down', async () => {
    const view = await bed.created({ PRINT: base64('last words\n'), EXIT: '5' });
    await bed.start(view);
    const next = await bed.under.reopen();
    try {
      await eventually(async () => expect(await bed.inspect(view, next)).toMatchObject({ state: 'exited', exitCode: 5 }));
      expect((await linesOf(next, view.handle)).map(({ text }) => text)).toEqual(['last words']);
    } finally {
      await next.close();
    }
  });
}
