import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';

import { Chance, FRAMES } from '../../../test/support/hostile-frames.ts';
import { keptMemory } from '../../../test/support/kept-memory.ts';
import { Scripted } from '../../../test/support/scripted-supervisor.ts';
import { supervisorPath } from '../../../test/support/supervisor-channel.ts';
import type { Channel } from './channel.ts';
import { ChannelBroken, FrameType } from './frames.ts';

/** The exit code of a supervisor that was sent what is no frame of the protocol. */
const REFUSED = 3;
const RUNS = 150;
const FRAMES_AT_ONCE = 500;
/** The most memory of an attached process, whatever it was sent: it is compiled without a sanitizer, KiB. */
const PEAK_KIB_MAX = 32 * 1024;
const { open, data, end, credit, reset, control, hello, head } = FrameType;
/** An OPEN starts a process, so that the other types are more frequent. */
const fromService = [open, ...Array.from({ length: 8 }, () => [data, end, credit, reset, control]).flat()];
/** An end ends a stream, and too many answers or too much credit the channel, so that output is what comes most. */
const fromSupervisor = [...Array.from({ length: 100 }, () => data), ...Array.from({ length: 10 }, () => credit), head, head, end, hello];
const [WINDOW_BYTES, INPUT_BYTES, STREAMS] = [100_000, 20_000, 8];

interface Ended {
  code: number | null;
  signal: string | null;
  peakKiB: number;
  said: string;
}

async function endOf(frames: readonly Buffer[], cwd = '/'): Promise<Ended> {
  const child = spawn(supervisorPath, ['attach'], { stdio: ['pipe', 'pipe', 'pipe'], env: { PATH: '/usr/bin:/bin' }, cwd });
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-4_000)));
  child.stdout.resume();
  child.stdin.on('error', () => undefined);
  child.stdin.write(Buffer.concat(frames));
  child.stdin.end();
  let peakKiB = 0;
  const looking = setInterval(() => (peakKiB = Math.max(peakKiB, peakOf(child.pid))), 2);
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  clearInterval(looking);
  return { code, signal, peakKiB, said };
}

function peakOf(pid: number | undefined): number {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

const endsInOrder = ({ code, signal, said }: Ended) =>
  expect({ ends: code === 0 || (code === REFUSED && /^supervisor: [^\n]*\n$/.test(said)), signal, said }).toEqual({
    ends: true,
    signal: null,
    said,
  });

describe('a supervisor', () => {
  let folder: string;
  beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'mooring-hostile-'))));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it(`ends in order, or refuses, whatever frames it is sent, in bounded memory`, async () => {
    const seed = Date.now() % 2 ** 31;
    const chance = new Chance(seed);
    let [handled, peak] = [0, 0];
    for (let batches = 0; handled < FRAMES; batches += 1) {
      const frames = Array.from({ length: FRAMES_AT_ONCE }, () => chance.frame(fromService, { streams: 200, hostile: 2_000, folder }));
      const ended = await endOf(frames, folder);
      endsInOrder(ended);
      peak = Math.max(peak, ended.peakKiB);
      if (ended.code === 0) handled += frames.length;
      if (batches > (4 * FRAMES) / FRAMES_AT_ONCE) throw new Error(`with the seed ${seed} most frames are refused: ${ended.said}`);
    }
    process.stdout.write(`${handled} frames to a supervisor (seed ${seed}), ${peak} KiB at most\n`);
    if (process.env.TEST_SUPERVISOR === undefined) expect(peak).toBeLessThan(PEAK_KIB_MAX);
  }, 600_000);

  it('ends in order, or refuses, whatever bytes it is sent', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 20 }), async (chunks) => {
        endsInOrder(await endOf(chunks.map((chunk) => Buffer.from(chunk))));
      }),
      { numRuns: RUNS },
    );
  });
});

describe('the service', () => {
  it('parses frames in bounded memory, and closes its channel or continues, whatever an agent sends', async () => {
    const seed = Date.now() % 2 ** 31;
    const chance = new Chance(seed);
    const before = keptMemory();
    let peak = 0;
    let broken = 0;
    const pair = async () => {
      const { transport, channel } = await Scripted.open();
      transport.input.resume();
      for (let n = 0; n < STREAMS; n += 1) startWork(channel);
      return { transport, channel };
    };
    let { transport, channel } = await pair();
    for (let n = 0; n < FRAMES; n += 1) {
      const frame = chance.frame(fromSupervisor, { streams: STREAMS, hostile: 300, folder: '/nowhere' });
      const cut = chance.below(frame.length);
      transport.says(frame.subarray(0, cut));
      transport.says(frame.subarray(cut));
      if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      if (n % 50_000 === 0) peak = Math.max(peak, keptMemory() - before);
      if (channel.isOpen) continue;
      broken += 1;
      expect([transport.isClosed, channel.size]).toEqual([true, 0]);
      ({ transport, channel } = await pair());
    }
    channel.close();
    process.stdout.write(`${FRAMES} frames to the service (seed ${seed}): ${broken} channels broke, ${peak >> 10} KiB at most\n`);
    expect(peak).toBeLessThan(64 * 1024 * 1024);
  }, 600_000);
});

/** Opens a stream whose output is read as it comes, and which must end in its own error or none. */
function startWork(channel: Channel): void {
  const stream = channel.open(['exec'], WINDOW_BYTES);
  const work = async () => {
    const answered = stream.head();
    answered.catch(() => undefined);
    await stream.write(Buffer.alloc(INPUT_BYTES));
    for await (const { bytes } of stream.output()) if (bytes.length > WINDOW_BYTES) throw new Error('too much');
    await answered;
    await stream.ended();
  };
  void work().catch((error: unknown) => {
    if (!(error instanceof ChannelBroken)) throw error;
  });
}
