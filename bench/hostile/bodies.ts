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
const SPAN_MS = Number(process.env.BENCH_SECONDS ?? 40) * 1_000;
const LOOK_EVERY_MS = 25;

const aims = { health_p99_ms: 100, times_without: 3, most_mb: 400 };

/**
 * Measures 20 well-behaved callers beside 200 concurrent hostile bodies, on every route that may have a body, against the same callers
 * alone.
 */
export async function bodies(): Promise<object> {
  const bed = await ScaleBed.start({ nodeOptions });
  try {
    const [good, hostile] = [await bed.account(), await bed.account()];
    const owner = bed.caller(good.key);
    const agentIds = await Promise.all(Array.from({ length: AGENTS }, () => makeAgent(owner, 'bench/agent:1')));
    const load = new Load(() => ({ url: bed.service.firstRun.url, api_key: good.key }), agentIds, CALLERS);
    await load.start();
    const without = await watched(bed, load);
    const credentials = [await bed.adminSession(), hostile.key, null];
    const sender = await Sender.start({ url: bed.service.firstRun.url, credentials, bodies: BODIES });
    let beside: Watched;
    let sent: Sent;
    try {
      beside = await watched(bed, load);
      sent = await sender.stop();
    } finally {
      sender.kill();
    }
    await load.stop();
    const figures = { without, beside };
    console.table(figures);
    const worst = Math.max(beside.read_p99_ms / without.read_p99_ms, beside.write_p99_ms / without.write_p99_ms);
    const verdicts = {
      health_p99: beside.health_p99_ms <= aims.health_p99_ms,
      callers_p99: worst <= aims.times_without,
      memory: beside.most_mb <= aims.most_mb,
    };
    return { aims, ...figures, callers_p99_times_without: rounded(worst), sent, verdicts, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
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

/** Returns what the callers, and one that asks for `/health`, measured in one span. */
async function watched(bed: ScaleBed, load: Load): Promise<Watched> {
  const { service } = bed;
  const prober = bed.owner();
  load.reset();
  const times: number[] = [];
  let failed = 0;
  const [began, cpuBefore, starvedBefore] = [performance.now(), cpuMs(service.pid), starvedMs(service.pid)];
  while (performance.now() - began < SPAN_MS) {
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
    const child = fork(program, { execArgv: ['--import', './scripts/typescript.mjs'] });
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
