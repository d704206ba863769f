import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { cpuMs, machineLoad, memoryMb, rounded, summary } from '../support/figures.ts';
import { nodeOptions } from '../support/node-options.ts';
import { makeRealImage, REAL_IMAGE, removeRealImage } from '../support/real-agents.ts';
import { makeAgent, ScaleBed, timedChat, timedWake, together, type Timed } from '../support/scale-bed.ts';
import { seedAgents, type Mix } from '../support/seeded-agents.ts';

const IMAGE = 'bench/agent:1';
/** The number of containers on the real engine. The other active agents are on the fake one. */
const REAL = Number(process.env.BENCH_REAL ?? 500);
/** The part of the 10,000 agents that is created. 0.01 is enough to try the benchmark. */
const PART = Number(process.env.BENCH_PART ?? 1);
const ACTIVE = 500 * PART;
/**
 * The agents by status. As many are frozen as fall asleep within 15 minutes if 500 are awake for 5 minutes each; the other sleeping agents
 * are in deep sleep.
 */
const mix: Mix = { frozen: 1_500 * PART, asleep: 5_500 * PART, stopped: 1_000 * PART, failed: 750 * PART, crashed: 750 * PART };
const PROBES = 5;
const ROUNDS = 200;
/** The rounds that are not counted: the program with all agents was restarted, so that its first chats and wakes compile their code. */
const WARM_UP_ROUNDS = 2 * PROBES;
const MEASURE_MS = 150_000;
/** A large service may rest for five minutes between two resyncs: a shorter window has too many or none. */
const IDLE_MS = Number(process.env.BENCH_IDLE_SECONDS ?? 300) * 1_000;
/** The time after a start before a service counts as idle, in ms: what is done once then (leftovers, measurements, compilation) is no rest. */
const SETTLE_MS = 120_000;
const SETTLE_LOOK_MS = 5_000;
/** The share of a core, in per cent, below which a service counts as idle. */
const QUIET_PERCENT = 5;

/** A service, its measured agents, and their responses. */
interface Side {
  bed: ScaleBed;
  owner: Caller;
  awake: string[];
  frozen: string[];
  chats: Timed[];
  wakes: Timed[];
}

/** Measures 10 000 unused agents against ten: the service's resource use, and the latency of agents that are used. */
export async function idle(): Promise<object> {
  const sides: Side[] = [];
  const real = REAL > 0 && (await makeRealImage()) ? REAL : 0;
  const start = async () => {
    const side = await startSide(real > 0);
    sides.push(side);
    await makeProbes(side, real > 0);
    return side;
  };
  try {
    const [few, many] = [await start(), await start()];
    await fill(many, real);
    const resting = await rest(many);
    const alone = await rest(few, 0);
    const end = performance.now() + MEASURE_MS;
    for (let n = 0; n < WARM_UP_ROUNDS + ROUNDS && performance.now() < end; n++) for (const side of sides) await oneRound(side, n);
    for (const { chats, wakes } of sides) for (const each of [chats, wakes]) each.splice(0, WARM_UP_ROUNDS);
    const rows = (['chats', 'wakes'] as const).map((kind) => {
      const [ten, all] = [few[kind], many[kind]].map((timed) => summary(timed.map(({ ms }) => ms)));
      const failed = many[kind].filter(({ status }) => status !== 200).length;
      return {
        kind,
        rounds: all?.n,
        ten_p50: ten?.p50,
        ten_p95: ten?.p95,
        all_p50: all?.p50,
        all_p95: all?.p95,
        ratio: rounded((all?.p95 ?? NaN) / (ten?.p95 ?? NaN)),
        failed,
      };
    });
    console.table(rows);
    console.table([
      { agents: 10, ...alone },
      { agents: 10_000 * PART, ...resting },
    ]);
    return {
      aim: 'under 2 % of a core, at most 350 MB, p95 at most 1.3 times that with ten',
      mix: { ...mix, active: ACTIVE, real },
      ten: alone,
      all: resting,
      rows,
      load: machineLoad(),
    };
  } finally {
    await Promise.all(sides.map(({ bed }) => bed.dispose()));
    if (real > 0) await removeRealImage();
  }
}

async function startSide(withReal: boolean): Promise<Side> {
  const engine = { programs: { [IMAGE]: messagesProgram() }, ...(withReal ? { real: [REAL_IMAGE] } : {}) };
  const bed = await ScaleBed.start({ engine, nodeOptions, environment: { MOORING_DEEP_SLEEP_AFTER: '86400' } });
  return { bed, owner: bed.owner(), awake: [], frozen: [], chats: [], wakes: [] };
}

/** Makes ten agents: five that stay awake, as real containers if possible, and five that are put to sleep and woken. */
async function makeProbes(side: Side, withReal: boolean): Promise<void> {
  const five = (image: string) =>
    together(
      Array.from({ length: PROBES }, () => image),
      PROBES,
      (each) => makeAgent(side.owner, each),
    );
  side.awake = await five(withReal ? REAL_IMAGE : IMAGE);
  side.frozen = await five(IMAGE);
  for (const agentId of side.frozen) await side.owner.done('POST', `/api/agents/${agentId}/sleep`, undefined, { prefer: 'wait=60' });
}

async function fill({ bed, owner }: Side, real: number): Promise<void> {
  const images = Array.from({ length: ACTIVE - PROBES }, (_, n) => (n < real - PROBES ? REAL_IMAGE : IMAGE));
  await together(images, 6, (image) => makeAgent(owner, image));
  const { body: accounts } = await bed.admin('GET', '/api/admin/accounts');
  const place = {
    databaseUrl: bed.database.url,
    engine: bed.engine,
    instance: await bed.instance(),
    accountId: accounts[0].account_id,
    image: IMAGE,
  };
  await bed.service.stop();
  await seedAgents(place, mix);
  await bed.service.start();
  await bed.ready();
}

/** Waits until the service is idle, and measures its resource use then. */
async function rest({ bed }: Side, settleMs = SETTLE_MS): Promise<object> {
  const { pid } = bed.service;
  const began = performance.now();
  let percent = Infinity;
  while (percent > QUIET_PERCENT && performance.now() - began < settleMs) percent = await cpuPercent(pid, SETTLE_LOOK_MS);
  const settled = rounded((performance.now() - began) / 1_000, 0);
  await span(Math.max(0, settleMs - (performance.now() - began)));
  const transactions = await transactionsOf(bed);
  const cpu = await cpuPercent(pid, IDLE_MS);
  const spent = (await transactionsOf(bed)) - transactions;
  const { rss, peak } = memoryMb(pid);
  return {
    settled_after_s: settled,
    cpu_percent: cpu,
    transactions_a_second: rounded(spent / (IDLE_MS / 1_000)),
    rss_mb: rss,
    most_mb: peak,
  };
}

async function cpuPercent(pid: number, ms: number): Promise<number> {
  const [before, began] = [cpuMs(pid), performance.now()];
  await span(ms);
  return rounded(((cpuMs(pid) - before) / (performance.now() - began)) * 100);
}

async function transactionsOf(bed: ScaleBed): Promise<number> {
  const [row] = await bed.query<{ n: string }>(
    'select xact_commit + xact_rollback as n from pg_stat_database where datname = current_database()',
  );
  return Number(row?.n);
}

async function oneRound({ owner, awake, frozen, chats, wakes }: Side, n: number): Promise<void> {
  chats.push(await timedChat(owner, awake[n % awake.length] ?? ''));
  wakes.push(await timedWake(owner, frozen[n % frozen.length] ?? ''));
}
