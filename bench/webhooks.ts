import { messagesProgram } from '../test/support/fake-docker-engine/program.ts';
import { span, until } from '../test/support/until.ts';
import { appendsPerSecond, portAppends } from './support/appending.ts';
import { BareServer } from './support/bare.ts';
import { emptyStore } from './support/empty-store.ts';
import { machineLoad, percentile, rounded } from './support/figures.ts';
import { nodeOptions } from './support/node-options.ts';
import { rateOf } from './support/rate.ts';
import { makeAgent, ScaleBed, together } from './support/scale-bed.ts';
import { cpuOfOne, perOne, spent } from './support/spent.ts';

const IMAGE = 'bench/agent:1';
const CALLERS = 32;
/** The number of agents to which each caller sends in turn, so that none of them gets as many webhooks as it may. */
const AGENTS_EACH = Number(process.env.BENCH_AGENTS_EACH ?? 8);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 8);
const SLICE_MS = 2_000;
const WARM_UP_MS = Number(process.env.BENCH_WARM_UP_MS ?? 10_000);
const IDLE_MS = 10_000;
const DRAINED_MS = 300_000;
/** A body of about half a kilobyte, like the events of the appends that it is compared with. */
const BODY = { event: 'push', delivery: 'x'.repeat(450) };

/**
 * Measures the webhooks accepted per second with 32 callers while earlier ones are delivered, compared with the event store's appends by as
 * many writers, and with a handler of the same framework that only does one append. Each slice starts when all earlier webhooks are
 * delivered.
 */
export async function run(): Promise<object> {
  const bed = await ScaleBed.start({
    engine: { programs: { [IMAGE]: messagesProgram({ onMessage: () => void (delivered += 1) }) } },
    environment: { MOORING_CHATS_PER_MINUTE: '10000000', MOORING_MESSAGE_BUDGET: '1000' },
    nodeOptions,
  });
  const bare = await BareServer.start(bed.database.url, CALLERS);
  const { store, close } = await emptyStore(bed.database.url, 'appends');
  const append = portAppends(store, CALLERS);
  try {
    const paths = await webhookPaths(bed);
    await slice(bed, paths, WARM_UP_MS);
    const rounds: { mine: Slice; bare: number; store: number }[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const bareRate = () => rateOf(bare.target, CALLERS, SLICE_MS, (caller) => ['PATCH', `/agents/${caller}`, BODY]);
      const mine = await slice(bed, paths, SLICE_MS);
      rounds.push({ mine, bare: (await bareRate()).perSecond, store: await appendsPerSecond(append, CALLERS, SLICE_MS) });
    }
    const figures = { ...summaryOf(rounds), ...(await costs(bed, paths)), load: machineLoad() };
    console.table(figures);
    return figures;
  } finally {
    await close();
    bare.stop();
    await bed.dispose();
  }
}

/** The number of messages that reached agents. */
let delivered = 0;
let sent = 0;

async function webhookPaths(bed: ScaleBed): Promise<string[]> {
  const owner = bed.owner();
  const images = Array.from({ length: CALLERS * AGENTS_EACH }, () => IMAGE);
  return together(images, 16, async (image) => {
    const agentId = await makeAgent(owner, image);
    const { body } = await owner.done('GET', `/api/webhooks/${agentId}/token`);
    return `/api/webhooks/${agentId}?token=${body.token}`;
  });
}

interface Slice {
  accepted: number;
  /** The webhooks delivered to agents per second while others were accepted. */
  delivered: number;
  /** The webhooks per second of the slice together with the time until all of them were delivered. */
  through: number;
}

/** Sends webhooks for the time (in ms), and waits until every one has reached its agent. */
async function slice(bed: ScaleBed, paths: readonly string[], ms: number): Promise<Slice> {
  const target = { url: bed.service.firstRun.url, pid: bed.service.pid, headers: {} };
  const [began, sentBefore, deliveredBefore] = [performance.now(), sent, delivered];
  const turns = Array.from({ length: CALLERS }, () => 0);
  const { perSecond } = await rateOf(target, CALLERS, ms, (caller) => {
    sent += 1;
    const turn = (turns[caller] = (turns[caller] ?? 0) + 1);
    return ['POST', paths[caller * AGENTS_EACH + (turn % AGENTS_EACH)] as string, BODY];
  });
  const meanwhile = (delivered - deliveredBefore) / ((performance.now() - began) / 1_000);
  await until('every webhook is delivered', () => (delivered >= sent ? true : undefined), { timeoutMs: DRAINED_MS });
  const through = ((sent - sentBefore) * 1_000) / (performance.now() - began);
  return { accepted: perSecond, delivered: meanwhile, through };
}

function summaryOf(rounds: { mine: Slice; bare: number; store: number }[]): object {
  const middle = (of: (round: (typeof rounds)[number]) => number, digits = 0) => rounded(percentile(rounds.map(of), 0.5), digits);
  return {
    accepted_per_second: middle(({ mine }) => mine.accepted),
    delivered_per_second_meanwhile: middle(({ mine }) => mine.delivered),
    accepted_and_delivered_per_second: middle(({ mine }) => mine.through),
    bare_per_second: middle(({ bare }) => bare),
    store_per_second: middle(({ store }) => store),
    ratio_to_bare: middle(({ mine, bare }) => mine.accepted / bare, 2),
    ratio_to_store: middle(({ mine, store }) => mine.accepted / store, 2),
  };
}

/** Returns the service's processor time and the database's transactions for one webhook with its delivery. */
async function costs(bed: ScaleBed, paths: readonly string[]): Promise<object> {
  const idle = await spent(bed, () => span(IDLE_MS));
  const sentBefore = sent;
  const busy = await spent(bed, () => slice(bed, paths, SLICE_MS * 2));
  const count = sent - sentBefore;
  return {
    cpu_ms: cpuOfOne(idle, busy, count),
    transactions: perOne('transactions', idle, busy, count),
    rows: perOne('rows', idle, busy, count),
  };
}
