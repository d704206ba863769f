import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';

import { AttachedSupervisor, supervisorPath } from '../../../test/support/supervisor-channel.ts';
import { until } from '../../../test/support/until.ts';
import { ChannelBroken } from './frames.ts';

const SOCKET = 'keeper';
const WINDOW_BYTES = 256 * 1024;
const MIB = 1024 * 1024;

describe('a keeper of commands and sessions', () => {
  let folder: string;
  let agent: ChildProcess;
  let keeper: ChildProcess;
  let attached: AttachedSupervisor;

  async function startKeeper(): Promise<ChildProcess> {
    const words = ['keep', SOCKET, String(agent.pid)];
    const started = spawn(supervisorPath, words, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH } });
    await once(started.stdout, 'data');
    return started;
  }

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mooring-kept-'));
    agent = spawn('sleep', ['1000'], { stdio: 'ignore' });
    keeper = await startKeeper();
    attached = await AttachedSupervisor.open({ folder, socket: SOCKET });
  });
  afterEach(async () => {
    await attached.close();
    agent.kill('SIGKILL');
    if (keeper.exitCode === null && keeper.signalCode === null) await once(keeper, 'exit');
    rmSync(folder, { recursive: true, force: true });
  });

  async function call(...words: string[]): Promise<{ text: string; result: string[] }> {
    const stream = attached.channel.open(words, WINDOW_BYTES);
    stream.endInput();
    let text = '';
    for await (const { bytes } of stream.output()) text += bytes.toString('latin1');
    return { text, result: (await stream.ended()).result };
  }
  const start = (id: string, script: string) => call('keep-start', '0', id, folder, '', '0', 'sh', '-c', script);
  const session = (idleMs: number, script: string) =>
    call('session', '20000', '100000', folder, '', 'one', String(idleMs), `command eval '${script}'`);
  const running = (mark: string) =>
    until(`nothing of ${mark} runs`, async () => {
      const { text } = await call('exec', '5000', '1000', '', '', '0', 'sh', '-c', `pgrep -f "[s]leep ${mark}" || echo none`);
      return text === 'none\n' ? true : undefined;
    });

  it('needs less than 1 MB, and ends with all its processes when the agent does', async () => {
    const status = readFileSync(`/proc/${keeper.pid}/status`, 'utf8');
    expect(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])).toBeLessThan(1_024);
    const mark = `7${Math.floor(Math.random() * 1e8)}`;
    await start('a', `(setsid sleep ${mark} &); sleep ${mark}`);
    await session(60_000, `sleep ${mark} & true`);
    agent.kill('SIGKILL');
    await once(keeper, 'exit');
    await running(mark);
  });

  it('ends its processes when it is killed', async () => {
    const mark = `6${Math.floor(Math.random() * 1e8)}`;
    await start('a', `(setsid sleep ${mark} &); sleep ${mark}`);
    keeper.kill('SIGKILL');
    await running(mark);
  });

  it('exists once, however many are started', async () => {
    await start('a', 'sleep 1000');
    const [second] = (await once(await startKeeper(), 'exit')) as [number | null];
    expect(second).toBe(0);
    expect((await call('keep-states')).result.slice(0, 3)).toEqual(['ok', 'a', 'running']);
  });

  it('keeps 8 MiB of the output of ended commands, the last ones first', async () => {
    for (let n = 0; n < 10; n += 1) {
      await start(`c${n}`, 'head -c 2000000 /dev/zero');
      await call('keep-ended', `c${n}`);
    }
    const { result } = await call('keep-states');
    const kept = Array.from({ length: 10 }, (_, n) => Number(result[1 + n * 5 + 3]) - Number(result[1 + n * 5 + 4]));
    expect(kept).toEqual([0, 0, ...Array.from({ length: 8 }, () => MIB)]);
  });

  it('closes an input that was sent completely, whenever its end arrives', async () => {
    const write = async (id: string) => {
      const stream = attached.channel.open(['keep-write', id, '1'], WINDOW_BYTES);
      await stream.write(Buffer.from('x'));
      stream.endInput();
      return (await stream.ended()).result;
    };
    const run = async (id: string) => {
      await start(id, 'cat');
      expect((await write(id)).slice(0, 2)).toEqual(['ok', '1']);
      expect((await call('keep-ended', id)).result.slice(0, 4)).toEqual(['ok', 'exited', '0', '1']);
      await call('keep-remove', id);
    };
    const several = Array.from({ length: 8 }, (_, n) => n);
    for (let round = 0; round < 60; round += 1) await Promise.all(several.map((n) => run(`c${n}`)));
  });

  it('ends an idle session after its timeout, and none that is in use', async () => {
    await session(400, 'NAME=kept; sleep 1');
    expect((await session(400, 'echo "[$NAME]"')).text).toBe('[kept]\n');
    const shells = () => readFileSync(`/proc/${keeper.pid}/task/${keeper.pid}/children`, 'utf8').trim();
    await until('the shell has ended', async () => (shells() === '' ? true : undefined));
    expect((await session(400, 'echo "[$NAME]"')).text).toBe('[]\n');
  });

  it('keeps running whatever is requested', async () => {
    const word = fc.oneof(
      fc.constantFrom('', '0', '1', '-1', 'a', 'b', '99999999999999', 'sh', '-c', 'exit 1'),
      fc.string({ maxLength: 20 }),
    );
    const name = fc.constantFrom(
      'keep-start',
      'keep-states',
      'keep-output',
      'keep-write',
      'keep-signal',
      'keep-remove',
      'keep-x',
      'session',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, fc.array(word, { maxLength: 9 })), { minLength: 1, maxLength: 20 }), async (calls) => {
        const streams = calls.map(([first, words]) => attached.channel.open([first, ...words], WINDOW_BYTES));
        for (const stream of streams) {
          stream.endInput();
          stream.reset();
          await stream.ended();
        }
        for (const id of ['a', 'b', '0', '1', '-1']) await call('keep-remove', id);
        expect((await call('keep-states')).result[0]).toBe('ok');
      }),
      { numRuns: 40 },
    );
    expect(keeper.exitCode).toBeNull();
  });

  it('keeps running whatever bytes arrive at its socket, and responds to none of them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 4_000 }), async (bytes) => {
        const connection = createConnection(join(folder, SOCKET));
        let answered = 0;
        connection.on('data', (answer) => (answered += answer.length));
        connection.on('error', () => undefined);
        connection.end(Buffer.from(bytes));
        await new Promise((resolve) => connection.on('close', resolve));
        expect(answered).toBe(0);
      }),
      { numRuns: 100 },
    );
    expect((await call('keep-states')).result).toEqual(['ok']);
  });

  it('is reported as missing if it does not run', async () => {
    const alone = await AttachedSupervisor.open({ folder, socket: 'nothing' });
    const stream = alone.channel.open(['keep-states'], WINDOW_BYTES);
    expect((await stream.ended()).result.slice(0, 2)).toEqual(['refused', 'keeper']);
    await alone.close();
    await expect(stream.write(Buffer.from('x'))).resolves.toBeUndefined();
    expect(() => alone.channel.open(['keep-states'], WINDOW_BYTES)).toThrow(ChannelBroken);
  });
});
