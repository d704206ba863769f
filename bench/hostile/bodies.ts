import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { span } from '../../test/support/until.ts';
import { cpuMs, machineLoad, memoryMb, percentile, rounded, starvedMs } from '../support/figures.ts';
import type { Attack, Sent } from '../support/hostile-sender.ts';
import { Load } from '../support/load.ts';
import { nodeOptions } from '../support/node-options.ts';
import { makeAgent, ScaleBed } from '../support/scale-bed.ts';

const AGENTS = 20;
const CALLERS = { readers: 15, writers: 5, pauseMs: 100 };
const BODIES = 200;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SPAN_MS = Number(process.env.BENCH_SECONDS ?? 20) * 1_000;
/** The beginning of an attack, in ms, which is measured by itself. The callers alone are measured after a beginning, too. */
const FIRST_MS = Number(process.env.BENCH_FIRST_SECONDS ?? 2) * 1_000;
const LOOK_EVERY_MS = 25;

const aims = { health_p99_ms: 100, times_without: 3, most_mb: 400 };

/**
 * Measures 20 well-behaved callers next to 200 concurrent hostile bodies, on every route with a body, compared with the same callers alone,
 * in alternation.
 */
export async function bodies(): Promise<object> {
  const bed = await ScaleBed.start({ nodeOptions });
  try {
    const [good, hostile] = [await bed.account(), await bed.account()];
    const owner = bed.caller(good.key);
    const agentIds = await Promise.all(Array.from({ length: AGENTS }, () => makeAgent(owner, 'bench/agent:1')));
    const load = new Load(() => ({ url: bed.service.firstRun.url, api_key: good.key }), agentIds, CALLERS);
    const attack = { url: bed.service.firstRun.url, credentials: [await bed.adminSession(), hostile.key, null], bodies: BODIES };
    await load.start(FIRST_MS);
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await measured(bed, load, attack));
    await load.stop();
    const of = (name: 'without' | 'first' | 'beside') => together(rounds.map((round) => round[name]));
    const figures = { without: of('without'), first: of('first'), beside: of('beside') };
    console.table(figures);
    const times = percentile(rounds.map(timesWithout), 0.5);
    const verdicts = {
      health_p99: figures.beside.health_p99_ms <= aims.health_p99_ms,
      callers_p99: times <= aims.times_without,
      memory: figures.beside.most_mb <= aims.most_mb,
    };
    const sent = rounds.map((round) => round.sent);
    return { aims, ...figures, callers_p99_times_without: times, rounds: rounds.map(timesWithout), sent, verdicts, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

interface Round {
  without: Watched;
  first: Watched;
  beside: Watched;
  sent: Sent;
}

/** Measures the callers alone, in the beginning of an attack, and in the rest of it. */
async function measured(bed: ScaleBed, load: Load, attack: Attack): Promise<Round> {
  const without = await watched(bed, load, SPAN_MS);
  const sender = await Sender.start(attack);
  try {
    const first = await watched(bed, load, FIRST_MS);
    const beside = await watched(bed, load, SPAN_MS);
    return { without, first, beside, sent: await sender.stop() };
  } finally {
    sender.kill();
  }
}

/** Returns the 99th percentile during an attack as a multiple of that without one: of reads or of writes, whichever is worse. */
function timesWithout({ without, beside }: Round): number {
  return rounded(Math.max(beside.read_p99_ms / without.read_p99_ms, beside.write_p99_ms / without.write_p99_ms));
}

/** Returns the median of each figure; of the highest ones the highest, and of failures the sum. */
function together(all: readonly Watched[]): Watched {
  const of = (name: keyof Watched): number => {
    const values = all.map((each) => each[name]);
    if (name === 'failed') return values.reduce((sum, value) => sum + value, 0);
    return name === 'health_max_ms' || name === 'most_mb' ? Math.max(...values) : percentile(values, 0.5);
  };
  const names = Object.keys(all[0] ?? {}) as (keyof Watched)[];
  return Object.fromEntries(names.map((name) => [name, of(name)])) as unknown as Watched;
}

interface Watched {
  health_p50_ms: number;
  health_p99_ms: number;
  health_max_ms: number;
  read_p99_ms: number;
  write_p99_ms: number;
  failed: number;
  cpu_percent: number;
  /** The share of time in which the service waited for a processor that something else used; the delay that this adds is not its own. */
  starved_percent: number;
  most_mb: number;
}

/** Returns the measurements of the callers, and of one that polls `/health`, for one span. */
async function watched(bed: ScaleBed, load: Load, spanMs: number): Promise<Watched> {
  const { service } = bed;
  const prober = bed.owner();
  load.reset();
  const times: number[] = [];
  let failed = 0;
  const [began, cpuBefore, starvedBefore] = [performance.now(), cpuMs(service.pid), starvedMs(service.pid)];
  while (performance.now() - began < spanMs) {
    const { ms, status } = await prober.call('GET', '/health');
    times.push(ms);
    if (status !== 200) failed += 1;
    await span(LOOK_EVERY_MS);
  }
  const took = performance.now() - began;
  const seen = load.figures();
  console.log(JSON.stringify(seen));
  return {
    health_p50_ms: percentile(times, 0.5),
    health_p99_ms: percentile(times, 0.99),
    health_max_ms: percentile(times, 1),
    read_p99_ms: seen.read_p99_ms,
    write_p99_ms: seen.write_p99_ms,
    failed: failed + seen.failed_reads + seen.failed_writes,
    cpu_percent: rounded(((cpuMs(service.pid) - cpuBefore) / took) * 100),
    starved_percent: rounded(((starvedMs(service.pid) - starvedBefore) / took) * 100),
    most_mb: memoryMb(service.pid).peak,
  };
}

/** The hostile callers, in their own process. */
class Sender {
  private constructor(private readonly child: ChildProcess) {}

  static async start(attack: Attack): Promise<Sender> {
    const program = join(import.meta.dirname, '..', 'support', 'hostile-sender.ts');
    // The process runs at the lowest priority, since it stands for other machines.
    const child = fork(program, { execPath: 'chrt', execArgv: ['--idle', '0', process.execPath, '--import', './scripts/typescript.mjs'] });
    await once(child, 'spawn');
    child.send({ attack });
    return new Sender(child);
  }

  async stop(): Promise<Sent> {
    this.child.send({ stop: true });
    const [sent] = (await once(this.child, 'message')) as [Sent];
    return sent;
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }
}
