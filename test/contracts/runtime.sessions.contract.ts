import { randomUUID } from 'node:crypto';
import { eventually, silent, type RuntimeFixture } from './runtime.fixture.contract.ts';
import type { ContainerRuntime, ExecRequest } from '../../src/runtime/runtime.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

type Other = Partial<Omit<ExecRequest, 'argv' | 'session'>> & { argv?: string[]; on?: ContainerView; runtime?: ContainerRuntime };

export function sessions(bed: RuntimeFixture): void {
  let view: ContainerView;
  beforeAll(async () => {
    view = await bed.running({ FROM_SPEC: 'spec' });
  });

  async function run(session: string, text: string, { on = view, runtime = bed.runtime, ...other }: Other = {}) {
    const argv = ['/bin/sh', '-c', text];
    const result = await runtime.exec(on.handle, { argv, timeoutMs: 20_000, outputLimitBytes: 262_144, session, ...other });
    return { ...result, stdout: result.stdout.toString(), stderr: result.stderr.toString() };
  }

  it('preserve the folder, the variables and the functions of their shell between commands', async () => {
    const session = randomUUID();
    const first = await run(
      session,
      'mkdir -p deep && cd deep; NAME="a b"; hello() { echo "hello $1"; }; echo out; echo err >&2; (exit 4)',
    );
    expect(first).toMatchObject({ exitCode: 4, stdout: 'out\n', stderr: 'err\n', timedOut: false, truncated: false });
    const next = await run(session, 'pwd; echo "$NAME $FROM_SPEC"; hello you');
    expect(next.stdout).toMatch(/\/deep\na b spec\nhello you\n$/);
    const other = await run(randomUUID(), 'pwd; echo "$NAME"');
    expect(other.stdout).not.toContain('deep');
  });

  it('pass a command its unchanged arguments, its input, and its own variables and folder', async () => {
    const session = randomUUID();
    const odd = ['two words', '', '$HOME', '`id`', '-x', "it's", '\n', '*'];
    const code = 'process.stdin.on("data", (b) => process.stdout.write(b)); console.log(JSON.stringify(process.argv.slice(1)))';
    const stdin = Buffer.from('input');
    const { stdout } = await run(session, '', { argv: ['node', '-e', code, '--', ...odd], stdin });
    expect(stdout).toBe(`${JSON.stringify(odd)}\ninput`);
    expect((await run(session, 'cat')).stdout).toBe('');
    await run(session, 'mkdir -p there');
    const own = await run(session, 'echo "$OWN"; pwd', { environment: { OWN: "it's" }, cwd: 'there' });
    expect(own.stdout).toMatch(/^it's\n.*\/there\n$/);
    expect((await run(session, 'echo "[$OWN]"; pwd')).stdout).toMatch(/^\[\]\n.*\/there\n$/);
    const nowhere = await run(session, 'echo ran', { cwd: 'nowhere' });
    expect([nowhere.exitCode, nowhere.stdout]).toEqual([126, '']);
    expect(nowhere.stderr).toContain('nowhere');
    await expect(run(session, 'true', { environment: { 'not a name': 'x' } })).rejects.toThrow(RuntimeRefused);
    await expect(run('no/name', 'true')).rejects.toThrow(RuntimeRefused);
  });

  it('survive a command that the shell can’t parse, and end with one that exits', async () => {
    const session = randomUUID();
    await run(session, 'KEPT=kept');
    expect((await run(session, 'if then (')).exitCode).toBe(2);
    expect((await run(session, 'echo "$KEPT"; return 6')).exitCode).toBe(6);
    expect(await run(session, 'echo "$KEPT"; exit 3')).toMatchObject({ exitCode: 3, stdout: 'kept\n' });
    expect(await run(session, 'echo "[$KEPT]"')).toMatchObject({ exitCode: 0, stdout: '[]\n' });
  });

  it('run one command at a time, while a second one waits within its deadline', async () => {
    const session = randomUUID();
    let begun = () => {};
    const hasBegun = new Promise<void>((resolve) => (begun = resolve));
    const slow = run(session, 'echo begun; sleep 1; PASSED=on', { onOutput: () => begun() });
    await hasBegun;
    const late = run(session, 'echo late', { timeoutMs: 200 });
    const next = run(session, 'echo "next $PASSED"');
    expect(await late).toMatchObject({ exitCode: 124, timedOut: true, stdout: '' });
    expect(await slow).toMatchObject({ exitCode: 0, timedOut: false });
    expect(await next).toMatchObject({ exitCode: 0, stdout: 'next on\n' });
  });

  it('end with all their processes at a command’s deadline, or when its caller goes away', async () => {
    const own = await bed.running();
    const beat = 'while :; do printf x >> "$MOORING_VOLUME/beats"; sleep 0.05; done';
    const session = randomUUID();
    const cut = await run(session, `NAME=kept; echo begun; (setsid sh -c '${beat}' &); sleep 300`, { timeoutMs: 3_000, on: own });
    expect(cut).toMatchObject({ exitCode: 124, timedOut: true, stdout: 'begun\n' });
    await silent(bed, own);
    expect((await run(session, 'echo "[$NAME]"', { on: own })).stdout).toBe('[]\n');
    const leaving = new AbortController();
    const gone = new Error('the caller has gone');
    const options = { on: own, signal: leaving.signal, onOutput: () => leaving.abort(gone) };
    await expect(run(session, `NAME=kept; echo begun; ${beat}`, options)).rejects.toBe(gone);
    await silent(bed, own);
    expect((await run(session, 'echo "[$NAME]"', { on: own })).stdout).toBe('[]\n');
  });

  it('survive a caller who goes away before the input of its command has arrived', async () => {
    const session = randomUUID();
    await run(session, 'NAME=kept');
    const leaving = new AbortController();
    const gone = new Error('the caller has gone');
    async function* stdin() {
      yield Buffer.from('some');
      leaving.abort(gone);
      await new Promise(() => undefined);
    }
    await expect(run(session, 'NAME=lost', { stdin: stdin(), signal: leaving.signal })).rejects.toBe(gone);
    expect((await run(session, 'echo "[$NAME]"')).stdout).toBe('[kept]\n');
  });

  it('limit the output of a command, and lose none of it below the limit', async () => {
    const session = randomUUID();
    const much = await run(session, 'head -c 300000 /dev/zero | tr "\\0" o; head -c 300000 /dev/zero | tr "\\0" e >&2; false', {
      outputLimitBytes: 400_000,
    });
    expect(much).toMatchObject({ exitCode: 1, truncated: true });
    expect(much.stdout.length + much.stderr.length).toBe(400_000);
    const lines = Array.from({ length: 20 }, (_, n) => n);
    for (const n of lines) expect((await run(session, `echo ${n}`)).stdout).toBe(`${n}\n`);
  });

  it('survive the service, and are limited to 8', async () => {
    const own = await bed.running();
    for (let n = 0; n < 8; n += 1) await run(`session-${n}`, `N=${n}`, { on: own });
    await expect(run('session-8', 'true', { on: own })).rejects.toThrow('This agent has as many sessions as it may: 8.');
    const next = await bed.under.reopen();
    expect((await run('session-3', 'echo $N', { on: own, runtime: next })).stdout).toBe('3\n');
    await next.close();
    await run('session-0', 'exit', { on: own });
    expect((await run('session-8', 'echo room', { on: own })).stdout).toBe('room\n');
    await bed.runtime.stop(own.handle, 5);
    await expect(run('session-3', 'true', { on: own })).rejects.toThrow(RuntimeRefused);
    await bed.start(own);
    await eventually(async () => expect((await run('session-3', 'echo "[$N]"', { on: own })).stdout).toBe('[]\n'));
  });
}
