import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import { machineLoad, rounded, summary } from '../support/figures.ts';
import { makeAgent, ScaleBed, together } from '../support/scale-bed.ts';

const IMAGE = 'bench/agent:1';
const AGENTS = 32;
const SETTLE_MS = 10_000;
const SHARE_MS = 10_000;
const AFTER_KILL_MS = 15_000;
/** The pause between two messages of one conversation, in ms. */
const PAUSE_MS = 200;

interface Spoken {
  began: number;
  ms: number;
  status: number;
}

/**
 * Measures how two replicas share the conversations of 32 agents, and how soon a third one and the other one continue those of a killed
 * one.
 */
export async function sharing(): Promise<object> {
  const steps = join(tmpdir(), `mooring-bench-steps-${process.pid}`);
  const counter = resolve(import.meta.dirname, '../support/count-steps.mjs');
  const bed = await ScaleBed.start({
    engine: { programs: { [IMAGE]: messagesProgram() } },
    replicas: 3,
    nodeOptions: ['--import', counter],
    // The callers send more messages than the usual limit of one account.
    environment: { BENCH_STEPS: steps, MOORING_CHATS_PER_MINUTE: '1000000' },
  });
  const delivered = () => [0, 1, 2].map((n) => countIn(`${steps}-${n}`));
  try {
    await bed.replica(2).stop();
    const agents = await together(
      Array.from({ length: AGENTS }, () => IMAGE),
      8,
      (image) => makeAgent(bed.owner(), image),
    );
    const talk = new Talk(bed, agents);
    talk.ask([0, 1]);
    await span(SETTLE_MS);
    const before = delivered();
    await span(SHARE_MS);
    const shares = delivered().map((count, n) => count - (before[n] ?? 0));
    const total = shares.reduce((sum, share) => sum + share, 0);
    const quiet = summary(talk.spoken.splice(0).map(({ ms }) => ms));

    await bed.replica(2).start();
    await bed.ready(2);
    await span(SETTLE_MS);
    // The replica that does the most work is killed, because its loss matters most.
    const killed = (shares[0] ?? 0) >= (shares[1] ?? 0) ? 0 : 1;
    talk.ask([1 - killed, 2]);
    talk.spoken.length = 0;
    const at = performance.now();
    await bed.replica(killed).kill();
    await span(AFTER_KILL_MS);
    await talk.stop();
    const answered = talk.spoken.filter(({ status }) => status === 200);
    const gaps = answered.filter(({ began }) => began < at + AFTER_KILL_MS / 2).map(({ ms }) => ms);
    const figures = {
      messages: total,
      shares_percent: shares.slice(0, 2).map((share) => rounded((share / total) * 100, 1)),
      chat_ms: quiet,
      chat_ms_around_the_kill: summary(gaps),
      longest_wait_over_the_kill_ms: Math.round(Math.max(...gaps)),
      failed_chats_of_callers_of_the_living: countBy(talk.spoken.filter(({ status }) => status !== 200 && status !== 0)),
    };
    console.table([{ shares: figures.shares_percent.join(' : '), longest_wait_ms: figures.longest_wait_over_the_kill_ms, p95: quiet.p95 }]);
    return { aim: '40:60 or better; taken over within 3 000 ms', ...figures, load: machineLoad() };
  } finally {
    await bed.dispose();
    for (const n of [0, 1, 2]) rmSync(`${steps}-${n}`, { force: true });
  }
}

/** Holds one endless conversation with each agent, through alternating replicas. */
class Talk {
  readonly spoken: Spoken[] = [];
  private replicas: number[] = [];
  private stopped = false;
  private running: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly bed: ScaleBed,
    private readonly agents: readonly string[],
  ) {}

  /** Sends further messages through these replicas. */
  ask(replicas: number[]): void {
    const begin = this.replicas.length === 0;
    this.replicas = replicas;
    if (begin) this.running = Promise.all(this.agents.map((agentId, n) => this.goOn(agentId, n)));
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.running;
  }

  private async goOn(agentId: string, n: number): Promise<void> {
    const owners = [0, 1, 2].map((replica) => this.bed.caller(this.bed.service.firstRun.api_key, replica));
    let conversation_id: string | undefined;
    for (let turn = n; !this.stopped; turn++) {
      const replica = this.replicas[turn % this.replicas.length] ?? 0;
      const began = performance.now();
      const { status, ms, body } = (await owners[replica]?.call('POST', `/api/agents/${agentId}/chat`, {
        message: 'hello',
        conversation_id,
      })) ?? {
        status: 0,
        ms: 0,
        body: null,
      };
      conversation_id ??= body?.conversation_id;
      this.spoken.push({ began, ms, status });
      await span(PAUSE_MS);
    }
  }
}

/** Counts the answers by status. */
function countBy(spoken: readonly Spoken[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of spoken) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function countIn(file: string): number {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 0;
  }
}
