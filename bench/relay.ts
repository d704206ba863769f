import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';

import { startBareRelay, withClient, type BareRelay } from './support/bare-relay.ts';
import { childrenCpuMs, childrenCpuSince, machineLoad, memoryMb, parentOf, percentile, threadsCpuMs } from './support/figures.ts';
import { nodeOptions } from './support/node-options.ts';
import { rateOf, type Asked, type Target } from './support/rate.ts';
import { RELAY_IMAGE, startRelayAgents, type RelayAgents } from './support/relay-agents.ts';
import { makeAgent, ScaleBed, together } from './support/scale-bed.ts';

const CALLERS = (process.env.BENCH_CALLERS ?? '1,8,64').split(',').map(Number);
const CALLERS_MAX = Math.max(8, ...CALLERS);
const WARM_AGENTS = 8;
/** The number of agents, shared out to the callers, for the chats with cold ones. */
const COLD_AGENTS = Number(process.env.BENCH_COLD_AGENTS ?? 768);
/** The time since its last chat after which an agent is cold, in ms. */
const COLD_MS = Number(process.env.BENCH_COLD_MS ?? 1_200);
const COLD_MARGIN_MS = 300;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const SLICE_MS = 1_500;
const WARM_UP_MS = Number(process.env.BENCH_WARM_UP_MS ?? 8_000);
/** The time after the last chat at which the memory is looked at again, in ms. */
const REST_MS = Number(process.env.BENCH_REST_MS ?? 30_000);
/** The entry file of another build of the service, such as that of the commit before, which is measured in the same rounds. */
const BESIDE = process.env.BENCH_BESIDE;
const MESSAGE = 'a question of about the length that people ask';

/** The conversation of a caller with an agent. */
interface Place {
  path: string;
  conversationId: string;
  usedAt: number;
}

/** A relay that is measured. */
interface Side {
  name: string;
  target: Target;
  postmaster: number;
  /** The conversations with warm agents, one for each caller, and those with cold agents. */
  warm: Place[];
  cold: Place[];
}

type Warmth = 'warm' | 'cold';

interface Slice {
  perSecond: number;
  p50Ms: number;
  p95Ms: number;
  /** The processor time of the relay and of PostgreSQL for one chat, in ms. */
  cpuMs: number;
  postgresMs: number;
}

/**
 * Measures chats, with agents that answer at once, against a bare relay that does the same four steps: it stores the message, delivers it,
 * stores the reply and answers; with a commit for each, and with commits in groups. Warm agents are talked to without a pause, cold ones
 * were not for a second. Each slice is one relay's; the ratios are those of the slices of a round.
 */
export async function run(): Promise<object> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void ScaleBed.disposeAll().finally(() => process.exit(1)));
  const beds: ScaleBed[] = [];
  const bare: BareRelay[] = [];
  try {
    const agents = await startRelayAgents();
    const bed = await startBed(beds, agents);
    const sides = [await serviceSide('mooring', bed)];
    if (BESIDE !== undefined) sides.push(await serviceSide('beside', await startBed(beds, await startRelayAgents(), BESIDE)));
    const addresses = await agents.addresses();
    for (const name of ['bare', 'grouped']) {
      const relay = await startBareRelay(bed.database.url, `relay_${name}`, addresses, name === 'grouped');
      bare.push(relay);
      sides.push(await bareSide(name, relay, await postmasterOf(bed)));
    }
    for (const side of sides) for (const warmth of ['cold', 'warm'] as const) await measure(side, 8, warmth, WARM_UP_MS / 2);
    const figures = figuresOf(await rounds(sides), sides);
    const busy = sides.map(({ target }) => memoryMb(target.pid));
    await wait(REST_MS);
    const memory = sides.map(({ name, target }, n) => ({
      relay: name,
      busy_mb: busy[n]?.rss,
      peak_mb: busy[n]?.peak,
      rested_mb: memoryMb(target.pid).rss,
    }));
    console.table(memory);
    console.table(figures.chats);
    console.table(figures.ratios);
    console.table(figures.cold_to_warm);
    return { ...figures, memory, load: machineLoad() };
  } finally {
    for (const { server } of bare) server.stop();
    for (const bed of beds) await bed.dispose();
  }
}

async function startBed(beds: ScaleBed[], outside: RelayAgents, entry?: string): Promise<ScaleBed> {
  const environment = { MOORING_CHATS_PER_MINUTE: '10000000', MOORING_MESSAGE_BUDGET: '1000' };
  const bed = await ScaleBed.start({ outside, entry, environment, nodeOptions });
  beds.push(bed);
  return bed;
}

async function serviceSide(name: string, bed: ScaleBed): Promise<Side> {
  const owner = bed.owner();
  const images = Array.from({ length: WARM_AGENTS + COLD_AGENTS }, () => RELAY_IMAGE);
  const agentIds = await together(images, 16, (image) => makeAgent(owner, image));
  const place = async (agentId: string): Promise<Place> => {
    const path = `/api/agents/${agentId}/chat`;
    const { body } = await owner.done('POST', path, { message: MESSAGE });
    return { path, conversationId: body.conversation_id, usedAt: -Infinity };
  };
  const target = {
    url: bed.service.firstRun.url,
    pid: bed.service.pid,
    headers: { authorization: `Bearer ${bed.service.firstRun.api_key}` },
  };
  return { name, target, postmaster: await postmasterOf(bed), ...(await placesOf(agentIds, place)) };
}

async function placesOf(agentIds: readonly string[], place: (agentId: string) => Promise<Place>): Promise<Pick<Side, Warmth>> {
  const warmAgents = Array.from({ length: CALLERS_MAX }, (_, caller) => agentIds[caller % WARM_AGENTS] as string);
  const [warm, cold] = [await together(warmAgents, 8, place), await together(agentIds.slice(WARM_AGENTS), 8, place)];
  return { warm, cold };
}

async function bareSide(name: string, { server, agentIds }: BareRelay, postmaster: number): Promise<Side> {
  const place = async (agentId: string) => ({ path: `/api/agents/${agentId}/chat`, conversationId: randomUUID(), usedAt: -Infinity });
  return { name, target: server.target, postmaster, ...(await placesOf(agentIds, place)) };
}

function postmasterOf(bed: ScaleBed): Promise<number> {
  return withClient(bed.database.url, async (client) => {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    return parentOf(rows[0]?.pid ?? 0);
  });
}

/** The slices of one round, by `callers warmth` and then by relay. */
type Round = Record<string, Record<string, Slice>>;

async function rounds(sides: readonly Side[]): Promise<Round[]> {
  const all: Round[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    const round: Round = {};
    for (const callers of CALLERS)
      for (const warmth of ['warm', 'cold'] as const) {
        const slices: Record<string, Slice> = (round[`${callers} ${warmth}`] = {});
        // A relay is not always measured after the same other one.
        for (const side of n % 2 === 0 ? sides : sides.toReversed()) slices[side.name] = await measure(side, callers, warmth, SLICE_MS);
      }
    all.push(round);
  }
  return all;
}

async function measure(side: Side, callers: number, warmth: Warmth, ms: number): Promise<Slice> {
  const { target, postmaster } = side;
  const shares = Array.from({ length: callers }, (_, caller) => side.cold.filter((_place, n) => n % callers === caller));
  const ask = async (caller: number): Promise<Asked> => {
    const place = warmth === 'warm' ? (side.warm[caller] as Place) : await coldOne(shares[caller] as Place[]);
    return ['POST', place.path, { message: MESSAGE, conversation_id: place.conversationId }];
  };
  // So that cold agents have rested for about that time, and not since the slice before.
  if (warmth === 'cold') await rateOf(target, callers, COLD_MS + COLD_MARGIN_MS, ask);
  const [cpu, postgres] = [threadsCpuMs(target.pid), childrenCpuMs(postmaster)];
  const { perSecond, p50Ms, p95Ms, count } = await rateOf(target, callers, ms, ask);
  const cpuMs = (threadsCpuMs(target.pid) - cpu) / count;
  return { perSecond, p50Ms, p95Ms, cpuMs, postgresMs: childrenCpuSince(postmaster, postgres) / count };
}

/** Returns the conversation that was used last among those that have rested for long enough, so that all rest for about that time. */
async function coldOne(places: readonly Place[]): Promise<Place> {
  const rested = ({ usedAt }: Place) => performance.now() - usedAt >= COLD_MS;
  const latest = (one: Place, other: Place) => (other.usedAt > one.usedAt ? other : one);
  const first = places.reduce((one, other) => (other.usedAt < one.usedAt ? other : one));
  while (!rested(first)) await wait(COLD_MS - (performance.now() - first.usedAt));
  const place = places.filter(rested).reduce(latest);
  place.usedAt = performance.now();
  return place;
}

function figuresOf(all: readonly Round[], sides: readonly Side[]) {
  const kinds = CALLERS.flatMap((callers) => [`${callers} warm`, `${callers} cold`]);
  const middle = (of: (round: Round) => number) => percentile(all.map(of), 0.5);
  const at = (round: Round, kind: string, side: string) => round[kind]?.[side] as Slice;
  const chats = kinds.flatMap((kind) =>
    sides.map(({ name }) => ({
      chats: kind,
      relay: name,
      per_second: Math.round(middle((round) => at(round, kind, name).perSecond)),
      p50_ms: middle((round) => at(round, kind, name).p50Ms),
      p95_ms: middle((round) => at(round, kind, name).p95Ms),
      cpu_ms: middle((round) => at(round, kind, name).cpuMs),
      postgres_ms: middle((round) => at(round, kind, name).postgresMs),
    })),
  );
  const others = sides.slice(1).map(({ name }) => name);
  const ratios = kinds.map((kind) => ({
    chats: kind,
    ...Object.fromEntries(
      others.flatMap((other) => [
        [`rate_to_${other}`, middle((round) => at(round, kind, 'mooring').perSecond / at(round, kind, other).perSecond)],
        [`cpu_of_${other}`, middle((round) => at(round, kind, other).cpuMs / at(round, kind, 'mooring').cpuMs)],
      ]),
    ),
  }));
  const coldToWarm = CALLERS.map((callers) => ({
    callers,
    ...Object.fromEntries(
      sides.flatMap(({ name }) => {
        const of = (member: 'cpuMs' | 'p50Ms') =>
          middle((round) => at(round, `${callers} cold`, name)[member] / at(round, `${callers} warm`, name)[member]);
        return [
          [`${name}_cpu`, of('cpuMs')],
          [`${name}_p50`, of('p50Ms')],
        ];
      }),
    ),
  }));
  return { chats, ratios, cold_to_warm: coldToWarm };
}
