import { randomUUID } from 'node:crypto';
import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import type { CommandOutput, CommandState } from '../../src/runtime/agent-commands.ts';
import { eventually, silent, type RuntimeFixture } from './runtime.fixture.contract.ts';
import type { ContainerRuntime } from '../../src/runtime/runtime.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

const KEPT_BYTES = 1024 * 1024;
const BEAT = 'while :; do printf x >> "$MOORING_VOLUME/beats"; sleep 0.05; done';
const within = () => timeoutSignal(30_000);

export function commands(bed: RuntimeFixture): void {
  let view: ContainerView;
  beforeAll(async () => {
    view = await bed.running({ FROM_SPEC: 'spec' });
  });

  async function started(script: string, on = view, other: { cwd?: string; environment?: Record<string, string> } = {}): Promise<string> {
    const commandId = randomUUID();
    const { cwd = null, environment = {} } = other;
    await bed.runtime.commands.start(on.handle, { commandId, argv: ['/bin/sh', '-c', script], cwd, environment }, within());
    return commandId;
  }
  const ended = (commandId: string, on = view) => bed.runtime.commands.ended(on.handle, commandId, within());
  async function printed(commandId: string, on = view, runtime: ContainerRuntime = bed.runtime, offset = 0): Promise<string> {
    const output = await runtime.commands.output(on.handle, commandId, { offset, limit: null, follow: true }, within());
    return Buffer.concat((await piecesOf(output)).map(({ bytes }) => bytes)).toString();
  }

  it('keep running after the call that started them, with the agent’s variables and their own, in the volume', async () => {
    const commandId = await started('echo "$FROM_SPEC$OWN"; pwd; echo late >&2; exit 5', view, { environment: { OWN: '+own' } });
    expect(await ended(commandId)).toMatchObject({ status: 'exited', exitCode: 5, droppedBytes: 0 });
    const lines = (await printed(commandId)).split('\n');
    expect([lines[0], lines[2]]).toEqual(['spec+own', 'late']);
    const folder = await bed.runtime.exec(view.handle, {
      argv: ['/bin/sh', '-c', 'cd "$MOORING_VOLUME" && pwd'],
      timeoutMs: 20_000,
      outputLimitBytes: 1_000,
    });
    expect(`${lines[1]}\n`).toBe(folder.stdout.toString());
    await bed.runtime.commands.remove(view.handle, commandId, within());
  });

  it('start once for each id, although the call is repeated', async () => {
    const request = {
      commandId: randomUUID(),
      argv: ['/bin/sh', '-c', 'printf x >> "$MOORING_VOLUME/once"'],
      cwd: null,
      environment: {},
    };
    await Promise.all(Array.from({ length: 6 }, () => bed.runtime.commands.start(view.handle, request, within())));
    await ended(request.commandId);
    await bed.runtime.commands.start(view.handle, request, within());
    expect((await bed.ask(view, 'GET', '/file/once')).text).toBe('x');
    await bed.runtime.commands.remove(view.handle, request.commandId, within());
  });

  it('are distinguished from those that were never started', async () => {
    const { commands: kept } = bed.runtime;
    expect(await kept.ended(view.handle, 'unknown', within())).toBeNull();
    expect(await kept.output(view.handle, 'unknown', { offset: 0, limit: null, follow: true }, within())).toBeNull();
    expect(await kept.write(view.handle, 'unknown', Buffer.from('x'), true, within())).toBe(false);
    expect(await kept.signal(view.handle, 'unknown', 'SIGTERM', within())).toBe(false);
    await kept.remove(view.handle, 'unknown', within());
    const odd = { commandId: '../x', argv: ['true'], cwd: null, environment: {} };
    await expect(kept.start(view.handle, odd, within())).rejects.toThrow(RuntimeRefused);
  });

  it('keep the newest 1 MiB of their output, and report how much was dropped', async () => {
    const commandId = await started('head -c 3000000 /dev/zero | tr "\\0" a; printf end');
    const state = (await ended(commandId)) as CommandState;
    expect(state).toEqual({ status: 'exited', exitCode: 0, outputBytes: 3_000_003, droppedBytes: 3_000_003 - KEPT_BYTES });
    const request = { offset: 10, limit: null, follow: false };
    const pieces = await piecesOf(await bed.runtime.commands.output(view.handle, commandId, request, within()));
    expect(pieces[0]?.offset).toBe(state.droppedBytes);
    const bytes = Buffer.concat(pieces.map((piece) => piece.bytes));
    expect([bytes.length, bytes.toString('utf8', bytes.length - 4)]).toEqual([KEPT_BYTES, 'aend']);
    const some = await piecesOf(
      await bed.runtime.commands.output(view.handle, commandId, { offset: 3_000_000, limit: 2, follow: false }, within()),
    );
    expect(some).toEqual([{ offset: 3_000_000, bytes: Buffer.from('en') }]);
    await bed.runtime.commands.remove(view.handle, commandId, within());
  });

  it('are not delayed by a slow reader, which skips to the output that is kept', async () => {
    const commandId = await started('head -c 6000000 /dev/zero | tr "\\0" b; sleep 0.2; printf end');
    const output = await bed.runtime.commands.output(view.handle, commandId, { offset: 0, limit: null, follow: true }, within());
    const iterator = (output as AsyncIterable<CommandOutput>)[Symbol.asyncIterator]();
    const first = await iterator.next();
    expect(await ended(commandId)).toMatchObject({ status: 'exited', outputBytes: 6_000_003 });
    const pieces = [first.value as CommandOutput];
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) pieces.push(next.value);
    const size = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
    expect(size).toBeLessThan(4_000_000);
    const last = pieces.at(-1) as CommandOutput;
    expect([last.offset + last.bytes.length, last.bytes.toString('utf8', last.bytes.length - 3)]).toEqual([6_000_003, 'end']);
    await bed.runtime.commands.remove(view.handle, commandId, within());
  });

  it('accept input until it is closed, and none after that', async () => {
    const { commands: kept } = bed.runtime;
    const commandId = await started('cat; echo over');
    const large = Buffer.alloc(300_000, 'y');
    expect(await kept.write(view.handle, commandId, large, false, within())).toBe(true);
    expect(await kept.write(view.handle, commandId, Buffer.from('last\n'), true, within())).toBe(true);
    expect(await kept.write(view.handle, commandId, Buffer.from('more'), false, within())).toBe(false);
    expect(await printed(commandId)).toBe(`${large.toString()}last\nover\n`);
    await kept.remove(view.handle, commandId, within());
  });

  it('do not block a caller whose input they do not read beyond its own timeout', async () => {
    const commandId = await started('sleep 300');
    const leaving = new AbortController();
    const writing = bed.runtime.commands.write(view.handle, commandId, Buffer.alloc(1_000_000), false, leaving.signal);
    const gone = new Error('the caller has gone');
    leaving.abort(gone);
    await expect(writing).rejects.toBe(gone);
    expect((await bed.runtime.commands.states(view.handle, within())).get(commandId)).toMatchObject({ status: 'running', exitCode: null });
    await bed.runtime.commands.remove(view.handle, commandId, within());
  });

  it('receive signals, and report which one killed them', async () => {
    const commandId = await started('trap "echo got" USR1; echo ready; while :; do sleep 0.05; done');
    const output = await bed.runtime.commands.output(view.handle, commandId, { offset: 0, limit: null, follow: true }, within());
    let text = '';
    for await (const { bytes } of output as AsyncIterable<CommandOutput>) {
      text += bytes.toString();
      if (text === 'ready\n') expect(await bed.runtime.commands.signal(view.handle, commandId, 'SIGUSR1', within())).toBe(true);
      // The shell may report on its own that the signal ended its program.
      if (text.endsWith('got\n')) await bed.runtime.commands.signal(view.handle, commandId, 'SIGKILL', within());
    }
    expect(await ended(commandId)).toMatchObject({ status: 'killed', exitCode: 137 });
    expect(await bed.runtime.commands.signal(view.handle, commandId, 'SIGTERM', within())).toBe(false);
    await bed.runtime.commands.remove(view.handle, commandId, within());
  });

  it('end with all their descendants when they are removed, and are no longer listed', async () => {
    const own = await bed.running();
    const commandId = await started(`(setsid sh -c '${BEAT}' &) ; ${BEAT}`, own);
    await eventually(async () => expect((await bed.ask(own, 'GET', '/file/beats')).status).toBe(200));
    await bed.runtime.commands.remove(own.handle, commandId, within());
    await silent(bed, own);
    expect((await bed.runtime.commands.states(own.handle, within())).has(commandId)).toBe(false);
  });

  it('are limited to 16 running ones, and the last 50 that ended are known', async () => {
    const own = await bed.running();
    const running = await Promise.all(Array.from({ length: 16 }, () => started('sleep 300', own)));
    await expect(started('true', own)).rejects.toThrow('As many commands run in this agent as may');
    await bed.runtime.commands.remove(own.handle, running[0] as string, within());
    const over: string[] = [];
    for (let n = 0; n < 52; n += 1) {
      const commandId = await started('true', own);
      await ended(commandId, own);
      over.push(commandId);
    }
    const states = await bed.runtime.commands.states(own.handle, within());
    expect(over.filter((commandId) => states.has(commandId))).toEqual(over.slice(2));
    expect([...states.values()].filter(({ status }) => status === 'running')).toHaveLength(15);
    await bed.runtime.remove(own.handle);
  });

  it('freeze and end with their agent', async () => {
    const own = await bed.running();
    const commandId = await started(BEAT, own);
    await eventually(async () => expect((await bed.ask(own, 'GET', '/file/beats')).text.length).toBeGreaterThan(3));
    await bed.runtime.freeze(own.handle);
    await expect(bed.runtime.commands.states(own.handle, within())).rejects.toThrow(RuntimeRefused);
    await bed.runtime.thaw(own.handle);
    const before = (await bed.ask(own, 'GET', '/file/beats')).text.length;
    await eventually(async () => expect((await bed.ask(own, 'GET', '/file/beats')).text.length).toBeGreaterThan(before));
    expect((await bed.runtime.commands.states(own.handle, within())).get(commandId)).toMatchObject({ status: 'running' });
    await bed.runtime.stop(own.handle, 5);
    await expect(bed.runtime.commands.states(own.handle, within())).rejects.toThrow(RuntimeRefused);
    await bed.start(own);
    await bed.answers(own);
    await silent(bed, own);
    expect((await bed.runtime.commands.states(own.handle, within())).size).toBe(0);
  });

  it('survive the service, and are followed from any offset after its restart', async () => {
    const commandId = await started('echo one; read line; echo "$line"');
    await eventually(async () =>
      expect((await bed.runtime.commands.states(view.handle, within())).get(commandId)?.outputBytes).toBe('one\n'.length),
    );
    const next = await bed.under.reopen();
    expect(await next.commands.write(view.handle, commandId, Buffer.from('two\n'), false, within())).toBe(true);
    expect(await printed(commandId, view, next, 2)).toBe('e\ntwo\n');
    await next.commands.remove(view.handle, commandId, within());
    await next.close();
  });
}

async function piecesOf(output: AsyncIterable<CommandOutput> | null): Promise<CommandOutput[]> {
  const pieces: CommandOutput[] = [];
  for await (const piece of output ?? []) pieces.push(piece);
  return pieces;
}
