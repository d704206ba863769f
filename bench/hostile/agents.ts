import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { answersOfAHostileAgent, CRASH, outputsOfAHostileAgent } from '../../test/support/hostile-agent.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { cpuMs, machineLoad, memoryMb, percentile, rounded, starvedMs, summary } from '../support/figures.ts';
import { nodeOptions } from '../support/node-options.ts';
import { makeRealImage, REAL_IMAGE, removeRealImage } from '../support/real-agents.ts';
import { makeAgent, orderAgent, type RunningEngine, ScaleBed, timedChat } from '../support/scale-bed.ts';

/** The image's name, as the program of the engine spells it. */
const HOSTILE_IMAGE = 'bench/hostile:1';
const HOSTILE = Number(process.env.BENCH_HOSTILE ?? 50);
/** Every n-th agent does this from its start, in addition to its answers. */
const FLOODS_EVERY = 3;
const CRASHES_EVERY = 5;
const SICK_EVERY = 7;
const CHATS = Number(process.env.BENCH_CHATS ?? 300);
/** The acts of the hostile agents: `floods`, `sick` health checks, `answers`, `crashes`; all of them by default. */
const WAYS = new Set((process.env.BENCH_HOSTILE_WAYS ?? 'floods,sick,answers,crashes').split(','));
const REPLY_TIMEOUT_SECONDS = 5;
const CRASH_PAUSE_MS = 2_000;

const aims = { chat_p95_times_alone: 1.5 };

/**
 * Measures a well-behaved agent next to 50 hostile agents of another account, compared with the same agent alone. It needs an engine and a
 * C compiler.
 */
export async function agents(): Promise<object> {
  if (!(await makeRealImage())) throw new Error('hostile:agents needs an engine and a C compiler for its good agent');
  const bed = await ScaleBed.start({
    outside: await engineProcess(),
    nodeOptions,
    environment: { MOORING_REPLY_TIMEOUT: String(REPLY_TIMEOUT_SECONDS), MOORING_DEEP_SLEEP_AFTER: '86400' },
  });
  try {
    const [good, hostile] = [bed.caller((await bed.account()).key), bed.caller((await bed.account()).key)];
    const agentId = await makeAgent(good, REAL_IMAGE);
    for (let n = 0; n < 20; n++) await timedChat(good, agentId);
    const alone = await watched(bed, good, agentId);
    const attack = await Attack.start(hostile);
    const beside = await watched(bed, good, agentId);
    attack.stop();
    const figures = { alone, beside };
    console.table(figures);
    const times = rounded(beside.chat_p95_ms / alone.chat_p95_ms);
    const verdicts = { chat: times <= aims.chat_p95_times_alone && beside.failed === 0 };
    return { aims, ...figures, chat_p95_times_alone: times, answers_of_hostile_agents: attack.answers, verdicts, load: machineLoad() };
  } finally {
    await bed.dispose();
    await removeRealImage();
  }
}

/** The hostile agents must not take the processor time of those who measure. */
async function engineProcess(): Promise<RunningEngine> {
  const program = join(import.meta.dirname, '..', 'support', 'hostile-engine.ts');
  const child = fork(program, { execArgv: ['--import', './scripts/typescript.mjs'] });
  const [{ environment }] = (await once(child, 'message')) as [{ environment: Record<string, string> }];
  const close = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.send('close');
    await once(child, 'exit');
  };
  return { environment, close };
}

async function watched(bed: ScaleBed, good: Caller, agentId: string) {
  const { pid } = bed.service;
  const times: number[] = [];
  const health: number[] = [];
  let failed = 0;
  const [began, cpuBefore, starvedBefore] = [performance.now(), cpuMs(pid), starvedMs(pid)];
  for (let n = 0; n < CHATS; n++) {
    const { ms, status } = await timedChat(good, agentId);
    times.push(ms);
    if (status !== 200) failed += 1;
    health.push((await good.call('GET', '/health')).ms);
  }
  const took = performance.now() - began;
  const { p50, p95, max } = summary(times);
  return {
    chat_p50_ms: p50,
    chat_p95_ms: p95,
    chat_max_ms: max,
    failed,
    health_p99_ms: percentile(health, 0.99),
    cpu_percent: rounded(((cpuMs(pid) - cpuBefore) / took) * 100),
    starved_percent: rounded(((starvedMs(pid) - starvedBefore) / took) * 100),
    most_mb: memoryMb(pid).peak,
  };
}

/** Has every hostile agent do what it can, until the end. */
class Attack {
  readonly answers: Record<string, number> = {};
  private isOver = false;

  private constructor(private readonly caller: Caller) {}

  static async start(caller: Caller): Promise<Attack> {
    const attack = new Attack(caller);
    const ids: string[] = [];
    for (let n = 0; n < HOSTILE; n++) ids.push(await orderAgent(caller, HOSTILE_IMAGE));
    for (const id of ids) await caller.call('GET', `/api/v1/agents/${id}/wait?status=active,error&timeout=60`);
    ids.forEach((id, n) => void attack.goOn(id, n));
    await span(REPLY_TIMEOUT_SECONDS * 1_000);
    return attack;
  }

  stop(): void {
    this.isOver = true;
  }

  private async goOn(agentId: string, n: number): Promise<void> {
    const [answers, outputs] = [Object.keys(answersOfAHostileAgent), Object.keys(outputsOfAHostileAgent)];
    if (WAYS.has('floods') && n % FLOODS_EVERY === 0) await this.chat(agentId, `flood with ${outputs[n % outputs.length]}`);
    if (WAYS.has('sick') && n % SICK_EVERY === 0) await this.chat(agentId, `be sick with ${answers[n % answers.length]}`);
    for (let at = n; !this.isOver && (WAYS.has('answers') || WAYS.has('crashes')); at++) {
      if (WAYS.has('answers')) await this.chat(agentId, answers[at % answers.length] as string);
      if (!WAYS.has('crashes') || n % CRASHES_EVERY !== 0) {
        if (!WAYS.has('answers')) return;
        continue;
      }
      await this.chat(agentId, CRASH);
      await span(CRASH_PAUSE_MS);
    }
  }

  private async chat(agentId: string, message: string): Promise<void> {
    const { status } = await timedChat(this.caller, agentId, message);
    this.answers[status] = (this.answers[status] ?? 0) + 1;
    // A caller that is refused immediately retries after a pause, like any program.
    if (status === 409 || status === 429 || status === 0) await span(100);
  }
}
