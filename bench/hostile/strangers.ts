import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { span } from '../../test/support/until.ts';
import type { Answers, Asking } from '../support/asking-strangers.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, rounded, summary } from '../support/figures.ts';
import { nodeOptions } from '../support/node-options.ts';
import { makeAgent, ScaleBed } from '../support/scale-bed.ts';

const AGENTS = 20;
const CONNECTIONS = Number(process.env.BENCH_CONNECTIONS ?? 200);
const SPAN_MS = Number(process.env.BENCH_SECONDS ?? 10) * 1_000;
/** The time before a measurement in which the strangers connect. */
const SETTLE_MS = 2_000;

const aims = { read_p95_times_without: 2 };
const ways: Record<string, Pick<Asking, 'method' | 'path'>> = {
  ready: { method: 'GET', path: '/ready' },
  'unknown agents': { method: 'GET', path: '/a/{id}/x' },
  'unknown webhooks': { method: 'POST', path: '/api/webhooks/{id}' },
};

/** Measures the reads of one account with and without 200 connections without a credential that request what costs the service the most. */
export async function strangers(): Promise<object> {
  const bed = await ScaleBed.start({ nodeOptions });
  try {
    const bob = bed.caller((await bed.account()).key);
    await Promise.all(Array.from({ length: AGENTS }, () => makeAgent(bob, 'bench/agent:1')));
    await reads(bob);
    const figures: Record<string, object> = {};
    const verdicts: Record<string, boolean> = {};
    for (const [name, way] of Object.entries(ways)) {
      const without = await reads(bob);
      const { beside, answers } = await besideStrangers({ url: bed.service.firstRun.url, ...way, connections: CONNECTIONS }, bob);
      const times = rounded(beside.p95 / without.p95);
      figures[name] = { without_p95_ms: without.p95, beside_p95_ms: beside.p95, failed: beside.failed, times_without: times, answers };
      verdicts[name] = times <= aims.read_p95_times_without && beside.failed === 0;
    }
    console.table(figures);
    return { aims, connections: CONNECTIONS, ...figures, verdicts, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

async function besideStrangers(asking: Asking, bob: Caller) {
  const program = join(import.meta.dirname, '..', 'support', 'asking-strangers.ts');
  const sender = fork(program, { execArgv: ['--import', './scripts/typescript.mjs'] });
  try {
    await once(sender, 'spawn');
    sender.send(asking);
    await span(SETTLE_MS);
    const beside = await reads(bob);
    return { beside, answers: JSON.stringify(await stopped(sender)) };
  } finally {
    sender.kill('SIGKILL');
  }
}

async function stopped(sender: ChildProcess): Promise<Answers> {
  sender.send({ stop: true });
  const [answers] = (await once(sender, 'message')) as [Answers];
  return answers;
}

async function reads(caller: Caller): Promise<{ p95: number; failed: number }> {
  const times: number[] = [];
  let failed = 0;
  for (const began = performance.now(); performance.now() - began < SPAN_MS;) {
    const { ms, status } = await caller.call('GET', '/api/agents');
    times.push(ms);
    if (status !== 200) failed += 1;
  }
  return { p95: summary(times).p95, failed };
}
