import { timeoutSignal } from '../../../kernel/async/timeout-signal.ts';
import { DockerFixture } from '../../../../test/support/docker-fixture.ts';
import { until } from '../../../../test/support/until.ts';
import type { ExecRequest } from '../../runtime.ts';
import type { ContainerView } from '../../container.ts';

const LIMIT_BYTES = 1_000;

describe('a command', () => {
  let bed: DockerFixture;
  let view: ContainerView;

  beforeAll(async () => {
    bed = await DockerFixture.open();
    view = await bed.running();
  });
  afterAll(() => bed?.close());

  const exec = (line: string, other: Partial<ExecRequest> = {}) =>
    bed.runtime.exec(view.handle, { argv: ['/bin/sh', '-c', line], timeoutMs: 20_000, outputLimitBytes: LIMIT_BYTES, ...other });
  const zeros = (count: number) => `/bin/busybox head -c ${count} /dev/zero`;
  /** The programs in the container, without its own, the one that looks, and what runs it. */
  const others = async () => (await bed.output(view, '/bin/busybox ps -o args | /bin/busybox grep -c "[s]leep 4321"')).trim();

  it('sends no more output out of its container than its limit, and continues at its own speed', async () => {
    let read = 0;
    const pace = (bytes: number) => {
      read += bytes;
      return null;
    };
    const much = '/bin/busybox dd if=/dev/zero bs=64k count=1600';
    const line = `${much} 2>/dev/null; { ${much} 2>&3 >&2; } 3>/dev/null; echo done > /data/done; exit 7`;
    const result = await exec(line, { pace });
    expect(result).toMatchObject({ exitCode: 7, truncated: true, timedOut: false });
    expect(result.stdout.length + result.stderr.length).toBe(LIMIT_BYTES);
    expect(await bed.output(view, 'cat /data/done')).toBe('done\n');
    // Both streams to one byte beyond the bound, and some bytes of framing for each piece.
    expect(read).toBeLessThan(2 * LIMIT_BYTES + 20_000);
  });

  it.each([
    ['at its bound is whole', `${zeros(600)}; ${zeros(400)} >&2`, false],
    ['on one stream beyond it is cut', zeros(1_001), true],
    ['on the other stream beyond it is cut', `${zeros(1_001)} >&2`, true],
    ['on both streams together beyond it is cut', `${zeros(600)}; ${zeros(401)} >&2`, true],
  ])('whose output %s', async (_, line, truncated) => {
    const { stdout, stderr, ...result } = await exec(line);
    expect(result).toEqual({ exitCode: 0, timedOut: false, truncated });
    expect(stdout.length + stderr.length).toBe(LIMIT_BYTES);
  });

  it('prints any bytes', async () => {
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7) % 256));
    const { stdout, stderr } = await exec('/bin/busybox tee /dev/stderr', { stdin: bytes, outputLimitBytes: 1_000_000 });
    expect([stdout.equals(bytes), stderr.equals(bytes)]).toEqual([true, true]);
  });

  it.each(['0', '1', '126', '127', '128', '137', '143', '145', '255'])('ends with its own exit code %s', async (code) => {
    expect((await exec(`${zeros(2_000)}; ${zeros(2_000)} >&2; exit ${code}`)).exitCode).toBe(Number(code));
  });

  it('is read no faster than its caller allows, and waits meanwhile', async () => {
    let letOn = () => {};
    const held = new Promise<void>((resolve) => (letOn = resolve));
    const seen: string[] = [];
    const running = exec('echo one; echo two; echo three > /data/three', {
      pace: () => held,
      onOutput: (_, bytes) => seen.push(bytes.toString()),
    });
    await until('it has printed', async () => ((await bed.output(view, 'cat /data/three')) === 'three\n' ? true : undefined));
    expect(seen.length).toBeLessThanOrEqual(1);
    letOn();
    expect(await running).toMatchObject({ exitCode: 0, truncated: false });
    expect(seen.join('')).toBe('one\ntwo\n');
  });

  it.each([
    ['in another session', 'setsid sleep 4321 &'],
    ['without its environment', 'env -i /bin/busybox sleep 4321 &'],
    ['detached twice, without its environment', 'env -i setsid /bin/sh -c "(/bin/busybox sleep 4321 & /bin/busybox sleep 4321) &" &'],
    ['without its environment, and holds the output', 'env -i setsid /bin/sh -c "while :; do echo x; /bin/busybox sleep 4321; done" &'],
  ])('leaves no process behind that it started %s', async (_, started) => {
    const line = `PATH=/bin; for tool in setsid env; do eval "$tool() { /bin/busybox $tool \\"\\$@\\"; }"; done; ${started} /bin/busybox sleep 0.2; echo over`;
    const began = performance.now();
    expect(await exec(line)).toMatchObject({ exitCode: 0, timedOut: false });
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(await others()).toBe('0');
  });

  it('needs no more than two processes, so that many at once leave room for an agent with few', async () => {
    const small = await bed.running({ pids: 20 });
    const stats = bed.docker.getContainer(small.handle);
    const processes = async () => (await stats.stats({ stream: false, 'one-shot': true })).pids_stats?.current ?? 0;
    const argv = ['/bin/busybox', 'sh', '-c', 'until [ -e /data/go ]; do read -r -t 1 _ <>/data/wait; done; echo went'];
    await bed.output(small, '/bin/busybox mkfifo /data/wait');
    const all = Array.from({ length: 8 }, () => bed.runtime.exec(small.handle, { argv, timeoutMs: 60_000, outputLimitBytes: LIMIT_BYTES }));
    await until('all of them run', async () => ((await processes()) > 8 * 2 ? true : undefined));
    // Beside them: the supervisor as the first process and as the one that is attached, and the agent.
    expect(await processes()).toBeLessThanOrEqual(8 * 2 + 3);
    await bed.runtime.files.makeDirectory(small.handle, 'go', { parents: true, signal: timeoutSignal(20_000) });
    for (const { exitCode, stdout } of await Promise.all(all)) expect([exitCode, stdout.toString()]).toEqual([0, 'went\n']);
    await bed.runtime.remove(small.handle);
  });

  it('leaves no process behind at its timeout, or when its caller goes away, although it removed its environment', async () => {
    const line =
      'exec /bin/busybox env -i /bin/busybox sh -c "/bin/busybox setsid /bin/busybox sleep 4321 & echo begun; exec /bin/busybox sleep 4321"';
    expect(await exec(line, { timeoutMs: 1_000 })).toMatchObject({ exitCode: 124, timedOut: true });
    expect(await others()).toBe('0');
    const leaving = new AbortController();
    const gone = new Error('the caller has gone');
    await expect(exec(line, { signal: leaving.signal, onOutput: () => leaving.abort(gone) })).rejects.toBe(gone);
    expect(await others()).toBe('0');
  });
});
