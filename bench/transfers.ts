import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { span } from '../test/support/until.ts';
import { StartedService } from '../test/support/started-service.ts';
import { cpuMs, machineLoad, memoryMb, percentile, rounded } from './support/figures.ts';
import type { Transferred, TransferOrder } from './support/transfer-sender.ts';

const COUNT = Number(process.env.BENCH_TRANSFERS ?? 20);
const AGENTS = 4;
const BYTES = 100 * 1_048_576;
const LOOK_EVERY_MS = 25;
const runtime = process.env.BENCH_RUNTIME === 'docker' ? 'docker' : 'local';

const aims = { health_p99_ms: 500, most_mb: 400 };

/** Measures 20 concurrent uploads of 100 MB, and then their downloads: equal bytes, the service's memory, and `/health` meanwhile. */
export async function run(): Promise<object> {
  const service = await StartedService.start({ runtime });
  try {
    const agentIds = await Promise.all(Array.from({ length: AGENTS }, (_, n) => agentOf(service, n)));
    const { url, api_key: key } = service.firstRun;
    const order = { url, key, agentIds, count: COUNT, bytes: BYTES };
    const before = memoryMb(service.pid);
    const up = await measured(service, { ...order, kind: 'upload' });
    const down = await measured(service, { ...order, kind: 'download' });
    const figures = { up: up.figures, down: down.figures };
    console.table(figures);
    const equal = up.outcomes.every(({ sha256, status }, n) => status === 200 && down.outcomes[n]?.sha256 === sha256);
    const verdicts = {
      equal,
      memory: Math.max(up.figures.most_mb, down.figures.most_mb) <= aims.most_mb,
      health_p99: Math.max(up.figures.health_p99_ms, down.figures.health_p99_ms) <= aims.health_p99_ms,
    };
    return { runtime, aims, before_mb: before.rss, ...figures, verdicts, load: machineLoad() };
  } finally {
    await service.dispose();
  }
}

async function agentOf(service: StartedService, n: number): Promise<string> {
  const made = await service.call('POST', '/api/agents', { name: `files ${n}`, templateId: 'hello' }, { prefer: 'wait=60' });
  if (made.body.status !== 'active') throw new Error(JSON.stringify(made.body));
  return made.body.agent_id as string;
}

async function measured(service: StartedService, order: TransferOrder) {
  const sender = await started();
  const times: number[] = [];
  const [began, cpuBefore] = [performance.now(), cpuMs(service.pid)];
  const probes = { over: false };
  const ended = once(sender, 'exit').then(() => Promise.reject(new Error('the sender ended')));
  const outcome = Promise.race([once(sender, 'message'), ended])
    .then(([outcomes]) => outcomes as Transferred[])
    .finally(() => (probes.over = true));
  ended.catch(() => undefined);
  outcome.catch(() => undefined);
  sender.send(order);
  while (!probes.over) {
    const asked = performance.now();
    const { ok } = await fetch(`${order.url}/health`);
    if (!ok) throw new Error('/health does not answer');
    times.push(performance.now() - asked);
    await span(LOOK_EVERY_MS);
  }
  const outcomes = await outcome;
  sender.kill('SIGKILL');
  const seconds = (performance.now() - began) / 1_000;
  const statuses = [...new Set(outcomes.map(({ status }) => status))].join(', ');
  const figures = {
    statuses,
    seconds: rounded(seconds),
    mb_per_second: rounded((order.count * order.bytes) / 1_048_576 / seconds),
    cpu_seconds: rounded((cpuMs(service.pid) - cpuBefore) / 1_000),
    health_p50_ms: percentile(times, 0.5),
    health_p99_ms: percentile(times, 0.99),
    most_mb: memoryMb(service.pid).peak,
  };
  return { figures, outcomes };
}

async function started(): Promise<ChildProcess> {
  const program = join(import.meta.dirname, 'support', 'transfer-sender.ts');
  const child = fork(program, { execArgv: ['--import', './scripts/typescript.mjs'] });
  await once(child, 'spawn');
  return child;
}
