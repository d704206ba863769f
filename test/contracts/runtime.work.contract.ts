import { timeoutSignal } from '../../src/kernel/async/timeout-signal.ts';
import {
  base64,
  command,
  entriesOf,
  eventually,
  firstLines,
  linesOf,
  say,
  silent,
  tarOf,
  type RuntimeFixture,
} from './runtime.fixture.contract.ts';
import type { LogLine, RuntimeEvent } from '../../src/runtime/runtime.ts';
import type { ContainerView } from '../../src/runtime/container.ts';
import { ContainerGone, RuntimeRefused } from '../../src/runtime/runtime.errors.ts';

const LINE_BYTES = 256 * 1024;

export function logs(bed: RuntimeFixture): void {
  it('yields a container’s output from its start, and new output, until it ends', async () => {
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.ask(view, 'POST', '/print/stdout', 'first\n');
    const lines: LogLine[] = [];
    const following = (async () => {
      for await (const line of bed.runtime.logs(view.handle, null, timeoutSignal(20_000))) lines.push(line);
    })();
    await eventually(async () => expect(lines).toHaveLength(1));
    await bed.ask(view, 'POST', '/print/stderr', 'second\nthird\n');
    await eventually(async () => expect(lines).toHaveLength(3));
    await bed.runtime.stop(view.handle, 10);
    await following;
    expect(lines.map(({ stream, text }) => [stream, text])).toEqual([
      ['stdout', 'first'],
      ['stderr', 'second'],
      ['stderr', 'third'],
    ]);
    expect(lines.every(({ cursor }) => cursor.generation === 1)).toBe(true);
  });

  it('stops following when the signal aborts', async () => {
    const view = await bed.running();
    const controller = new AbortController();
    const following = linesOf(bed.runtime, view.handle, null, controller.signal);
    await bed.ask(view, 'POST', '/print/stdout', 'x\n');
    await eventually(async () => expect(await firstLines(bed.runtime, view.handle, null, 1)).toHaveLength(1));
    controller.abort();
    await following;
    expect((await bed.inspect(view)).state).toBe('running');
  });

  it('resumes after any line without loss or repetition, in a burst too', async () => {
    const burst = Array.from({ length: 150 }, (_, index) => `line ${index}\n`).join('');
    const view = await bed.ended({ PRINT: base64(burst), PRINT_ERROR: base64(burst), EXIT: '0' });
    const all = await linesOf(bed.runtime, view.handle);
    for (const stream of ['stdout', 'stderr'])
      expect(all.filter((line) => line.stream === stream).map(({ text }) => text)).toEqual(burst.trimEnd().split('\n'));
    for (let index = 0; index < all.length; index += 13) {
      const rest = await linesOf(bed.runtime, view.handle, (all[index] as LogLine).cursor);
      expect(rest).toEqual(all.slice(index + 1));
    }
    expect(await linesOf(bed.runtime, view.handle, (all.at(-1) as LogLine).cursor)).toEqual([]);
  });

  it('resumes after the last line that was read, across a stop and a start', async () => {
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    await bed.ask(view, 'POST', '/print/stdout', 'before\n');
    const [before] = await firstLines(bed.runtime, view.handle, null, 1);
    await bed.runtime.stop(view.handle, 10);
    await bed.start(view);
    await bed.answers(view);
    await bed.ask(view, 'POST', '/print/stdout', 'after\n');
    const [after] = await firstLines(bed.runtime, view.handle, (before as LogLine).cursor, 1);
    expect([before?.text, after?.text]).toEqual(['before', 'after']);
  });

  it('begins at the start if the cursor is of an earlier generation', async () => {
    const view = await bed.ended({ PRINT: base64('a\nb\n'), EXIT: '0' });
    const [, last] = await linesOf(bed.runtime, view.handle);
    const old = { ...(last as LogLine).cursor, generation: 0 };
    expect(await linesOf(bed.runtime, view.handle, old)).toHaveLength(2);
  });

  it('returns the last lines so far, also of a running container, and all of them if there are fewer', async () => {
    const view = await bed.running({ ON_SIGTERM: 'finish' });
    expect(await bed.runtime.lastLines(view.handle, 3)).toEqual([]);
    await bed.ask(view, 'POST', '/print/stdout', 'first\nsecond\n');
    await eventually(async () => expect(await bed.runtime.lastLines(view.handle, 3)).toEqual(['first', 'second']));
    await bed.ask(view, 'POST', '/print/stderr', 'third\nfourth\n');
    await eventually(async () => expect(await bed.runtime.lastLines(view.handle, 3)).toEqual(['second', 'third', 'fourth']));
    await bed.runtime.remove(view.handle);
    await expect(bed.runtime.lastLines(view.handle, 3)).rejects.toThrow(ContainerGone);
  });

  it('turns any output of a program into valid lines', async () => {
    const view = await bed.ended({
      PRINT: [
        base64('plain\n\n'),
        base64(Buffer.from([0x61, 0xff, 0x62, 0x00, 0x63, 0x0a])),
        `${base64('x')}*300000`,
        base64('\nu'),
        `${base64('é')}*150000`,
        base64('\n10 %\r50 %\rdone\r\n{"level":"info"}\nno line end'),
      ].join(','),
      EXIT: '0',
    });
    const texts = (await linesOf(bed.runtime, view.handle)).map(({ text }) => text);
    const cut = (text: string, printed: number) => `${text} … (cut here: ${printed - Buffer.byteLength(text)} more bytes were printed)`;
    expect(texts.slice(0, 3)).toEqual(['plain', '', 'a\uFFFDb\uFFFDc']);
    expect(texts[3]).toBe(cut('x'.repeat(LINE_BYTES), 300_000));
    // An engine's log may replace a character that the end of one of its pieces went through.
    expect(texts[4]).toMatch(/^u[é\uFFFD]{100000,} … \(cut here: \d+ more bytes were printed\)$/);
    expect(Buffer.byteLength(texts[4] ?? '')).toBeLessThan(LINE_BYTES + 60);
    expect(texts.slice(5)).toEqual(['done', '{"level":"info"}', 'no line end']);
  });
}

export function events(bed: RuntimeFixture): void {
  it('reports within two seconds that a container ended by itself, or was killed', async () => {
    const controller = new AbortController();
    const seen: RuntimeEvent[] = [];
    const listening = (async () => {
      for await (const event of bed.runtime.events(controller.signal)) seen.push(event);
    })();
    const told = (agentId: string) => seen.some((event) => event.kind === 'changed' && event.agentId === agentId);
    try {
      for (const path of ['/exit', '/kill']) {
        const view = await bed.running();
        await eventually(async () => expect(told(view.agentId)).toBe(true), 2_000);
        seen.length = 0;
        await bed.ask(view, 'POST', path);
        await eventually(async () => expect(told(view.agentId)).toBe(true), 2_000);
        await eventually(async () => expect((await bed.inspect(view)).state).toBe('exited'), 1_000);
      }
    } finally {
      controller.abort();
      await listening;
    }
  });
}

export function exec(bed: RuntimeFixture): void {
  let view: ContainerView;
  beforeAll(async () => {
    view = await bed.running({ FROM_SPEC: 'spec' });
  });

  it('passes the arguments unchanged, and returns the exit code', async () => {
    const odd = ['two words', '', '$HOME', '`id`', '-x', 'ü', "'"];
    const code = 'console.log(JSON.stringify(process.argv.slice(1))); process.exit(9)';
    const result = await bed.runtime.exec(view.handle, command(['node', '-e', code, '--', ...odd]));
    expect(result).toMatchObject({ exitCode: 9, timedOut: false, truncated: false });
    expect(JSON.parse(result.stdout.toString())).toEqual(odd);
  });

  it('keeps stdout and stderr apart', async () => {
    const code = 'process.stdout.write("out"); process.stderr.write("err")';
    const result = await bed.runtime.exec(view.handle, command(['node', '-e', code]));
    expect([result.exitCode, result.stdout.toString(), result.stderr.toString()]).toEqual([0, 'out', 'err']);
  });

  it('passes standard input on, whole or in chunks, and ends it', async () => {
    const code = 'process.stdin.pipe(process.stdout)';
    const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 256));
    const limit = { outputLimitBytes: 1_000_000 };
    const whole = await bed.runtime.exec(view.handle, { ...command(['node', '-e', code]), ...limit, stdin: bytes });
    expect(whole.stdout.equals(bytes)).toBe(true);
    async function* parts() {
      for (let at = 0; at < bytes.length; at += 30_000) yield bytes.subarray(at, at + 30_000);
    }
    const inParts = await bed.runtime.exec(view.handle, { ...command(['node', '-e', code]), ...limit, stdin: parts() });
    expect(inParts.stdout.equals(bytes)).toBe(true);
    const none = await bed.runtime.exec(view.handle, command(['node', '-e', code]));
    expect(none).toMatchObject({ exitCode: 0, stdout: Buffer.alloc(0) });
  });

  it('accepts a command that leaves its input unread', async () => {
    const stdin = Buffer.alloc(1_000_000);
    expect((await bed.runtime.exec(view.handle, { ...command(['node', '-e', '0']), stdin })).exitCode).toBe(0);
  });

  it('has the container’s variables, and its own', async () => {
    const code = 'console.log(process.env.FROM_SPEC + process.env.OWN)';
    const result = await bed.runtime.exec(view.handle, { ...command(['node', '-e', code]), environment: { OWN: '+own' } });
    expect(result.stdout.toString()).toBe('spec+own\n');
  });

  it('runs in the volume, or in the requested folder', async () => {
    const pwd = (cwd?: string) => bed.runtime.exec(view.handle, { ...command(['/bin/sh', '-c', 'mkdir -p inner; pwd']), cwd });
    const volume = (await pwd()).stdout.toString().trim();
    await bed.ask(view, 'PUT', '/file/in-volume', 'x');
    expect((await bed.runtime.exec(view.handle, { ...command(['cat', 'in-volume']), cwd: volume })).stdout.toString()).toBe('x');
    expect((await pwd('inner')).stdout.toString()).toBe(`${volume}/inner\n`);
    expect(await pwd('nowhere')).toMatchObject({ exitCode: 126, stdout: Buffer.alloc(0) });
  });

  it('truncates the output at the limit, and lets the command finish', async () => {
    const code = 'process.stdout.write("o".repeat(300000), () => process.stderr.write("e".repeat(300000)))';
    const result = await bed.runtime.exec(view.handle, { ...command(['node', '-e', code]), outputLimitBytes: 1_000 });
    expect(result).toMatchObject({ exitCode: 0, truncated: true });
    expect(result.stdout.length + result.stderr.length).toBe(1_000);
  });

  it('kills the command and its children at the timeout', async () => {
    const beat = 'setInterval(() => require("fs").appendFileSync(process.env.MOORING_VOLUME + "/beats", "x"), 20)';
    const code =
      'require("child_process").spawn("node", ["-e", process.argv[1]], { stdio: "inherit" }); console.log("begun"); setInterval(() => 0, 1000)';
    const argv = ['node', '-e', code, beat];
    const begun = performance.now();
    // On a busy machine, two programs need more than a second to start.
    const result = await bed.runtime.exec(view.handle, { ...command(argv), timeoutMs: 4_000 });
    expect(performance.now() - begun).toBeLessThan(20_000);
    expect(result).toMatchObject({ exitCode: 124, timedOut: true });
    expect(result.stdout.toString()).toBe('begun\n');
    const first = await silent(bed, view);
    expect(first.length).toBeGreaterThan(0);
  });

  it('kills the command and its children when the caller goes away', async () => {
    const beat = 'setInterval(() => require("fs").appendFileSync(process.env.MOORING_VOLUME + "/beats", "x"), 20)';
    const code = 'require("child_process").spawn("node", ["-e", process.argv[1]]); console.log("begun"); setInterval(() => 0, 1000)';
    const leaving = new AbortController();
    const gone = new Error('the caller has gone');
    const begun = () => leaving.abort(gone);
    const request = { ...command(['node', '-e', code, beat]), signal: leaving.signal, onOutput: begun };
    await expect(bed.runtime.exec(view.handle, request)).rejects.toBe(gone);
    await silent(bed, view);
    await expect(bed.runtime.exec(view.handle, { ...say('late'), signal: leaving.signal })).rejects.toBe(gone);
  });

  it('passes the output on as it arrives', async () => {
    const code = 'process.stdin.once("data", () => process.stderr.write("two", () => process.exit(3))); process.stdout.write("one")';
    const seen: string[] = [];
    let goOn = () => {};
    const told = new Promise<void>((resolve) => (goOn = resolve));
    async function* stdin() {
      await told;
      yield Buffer.from('go on');
    }
    const onOutput = (stream: string, bytes: Buffer) => {
      seen.push(`${stream}: ${bytes.toString()}`);
      goOn();
    };
    const result = await bed.runtime.exec(view.handle, { ...command(['node', '-e', code]), stdin: stdin(), onOutput });
    expect(seen).toEqual(['stdout: one', 'stderr: two']);
    expect(result).toMatchObject({ exitCode: 3, stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) });
  });

  it('returns 127 if the command is not found', async () => {
    expect((await bed.runtime.exec(view.handle, command(['no-such-command-anywhere']))).exitCode).toBe(127);
  });

  it('runs several commands at once', async () => {
    const results = await Promise.all(['a', 'b', 'c', 'd'].map((word) => bed.runtime.exec(view.handle, say(word))));
    expect(results.map(({ stdout }) => stdout.toString())).toEqual(['a', 'b', 'c', 'd']);
  });

  it('reports an agent’s container as running only while it runs, also after commands were run in it', async () => {
    const other = await bed.running();
    const running = () => bed.runtime.running(other);
    const run = async () => expect((await bed.runtime.exec(other.handle, say('x'))).stdout.toString()).toBe('x');
    expect(await running()).toBe(other.handle);
    await run();
    expect(await running()).toBe(other.handle);
    expect(await bed.runtime.running({ ...other, generation: 2 })).toBeNull();
    if ((await bed.runtime.capabilities()).freeze) {
      await bed.runtime.freeze(other.handle);
      expect(await running()).toBeNull();
      await bed.runtime.thaw(other.handle);
      expect(await running()).toBe(other.handle);
      await run();
    }
    await bed.runtime.stop(other.handle, 0);
    await eventually(async () => expect(await running()).toBeNull());
    await bed.start(other);
    await bed.answers(other);
    expect(await running()).toBe(other.handle);
    await run();
    await bed.runtime.remove(other.handle);
    await eventually(async () => expect(await running()).toBeNull());
  });

  it('refuses a command if the container does not run', async () => {
    const still = await bed.created();
    await expect(bed.runtime.exec(still.handle, say('x'))).rejects.toThrow(RuntimeRefused);
    const over = await bed.ended({ EXIT: '0' });
    await expect(bed.runtime.exec(over.handle, say('x'))).rejects.toThrow(RuntimeRefused);
  });
}

export function archives(bed: RuntimeFixture): void {
  const files = { 'service/scripts/a.txt': 'alpha', 'service/scripts/deep/er/b.txt': 'beta', 'data/c.txt': 'gamma' };

  it('puts files into a container that has not been started, the volume included', async () => {
    const view = await bed.created();
    await bed.runtime.copyIn(view.handle, '/', tarOf(files));
    await bed.runtime.copyIn(view.handle, '/', tarOf(files));
    await bed.start(view);
    await bed.answers(view);
    expect((await bed.ask(view, 'GET', '/file/c.txt')).text).toBe('gamma');
    const code = 'process.stdout.write(require("fs").readFileSync(process.argv[1]))';
    const read = await bed.runtime.exec(view.handle, command(['node', '-e', code, '/service/scripts/deep/er/b.txt']));
    expect(read.stdout.toString()).toBe('beta');
  });

  it('keeps files as they are, empty ones and their modes too', async () => {
    const view = await bed.created();
    await bed.runtime.copyIn(
      view.handle,
      '/',
      tarOf({ ...files, 'service/scripts/run.sh': '#!/bin/sh\n', 'service/scripts/empty': '' }, 0o755),
    );
    await bed.start(view);
    await bed.answers(view);
    const { content } = await bed.runtime.files.read(view.handle, '/service/scripts', { maxBytes: null, signal: timeoutSignal(20_000) });
    const found = (await entriesOf(content)).filter(({ type }) => type === 'file');
    expect(found.toSorted((one, other) => (one.name < other.name ? -1 : 1))).toMatchObject([
      { name: 'scripts/a.txt', content: 'alpha', mode: 0o755 },
      { name: 'scripts/deep/er/b.txt', content: 'beta', mode: 0o755 },
      { name: 'scripts/empty', content: '', mode: 0o755 },
      { name: 'scripts/run.sh', content: '#!/bin/sh\n', mode: 0o755 },
    ]);
  });

  it('refuses to put files into a container that runs, or has run', async () => {
    const view = await bed.running();
    await expect(bed.runtime.copyIn(view.handle, '/', tarOf(files))).rejects.toThrow(RuntimeRefused);
    const over = await bed.ended({ EXIT: '0' });
    await expect(bed.runtime.copyIn(over.handle, '/', tarOf(files))).rejects.toThrow(RuntimeRefused);
  });
}
