import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, percentile, rounded } from '../support/figures.ts';
import { makeAgent, orderAgent, ScaleBed, timedChat, timedWake, together, type Timed } from '../support/scale-bed.ts';

const AGENT = 'bench/agent:1';
const SLOW = 'bench/slow:1';
const NEVER_READY = 'bench/never-ready:1';
const TRICKLE = 'bench/trickle:1';

const REPLY_MS = 15_000;
const CONVERSATIONS = Number(process.env.BENCH_CONVERSATIONS ?? 1_000);
const SLOW_AGENTS = 40;
const NEVER_READY_DEPLOYMENTS = 100;
const TRICKLING_PULLS = 20;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 400);
/** The longest time of the rounds, in ms, however few there were. */
const MEASURE_MS = 360_000;

const kinds = ['chat', 'frozen_wake', 'other_account_chat', 'other_account_frozen_wake'] as const;
type Times = Record<(typeof kinds)[number], Timed[]>;

/** A service with an account whose waiting work could delay others, and an unrelated account. */
class Side {
  readonly times: Times = { chat: [], frozen_wake: [], other_account_chat: [], other_account_frozen_wake: [] };
  private owner: Caller;
  private other: Caller;
  private agents: Record<'awake' | 'frozen' | 'otherAwake' | 'otherFrozen', string>;

  private constructor(readonly bed: ScaleBed) {}

  static async start(): Promise<Side> {
    const programs = {
      [AGENT]: messagesProgram(),
      [SLOW]: messagesProgram({ replyMs: REPLY_MS }),
      [NEVER_READY]: messagesProgram({ listens: false }),
    };
    const environment = { MOORING_START_TIMEOUT: '900', MOORING_DEEP_SLEEP_AFTER: '86400' };
    const side = new Side(await ScaleBed.start({ engine: { programs, trickling: [TRICKLE] }, environment }));
    side.owner = side.bed.owner();
    side.other = side.bed.caller((await side.bed.account()).key);
    side.agents = {
      awake: await makeAgent(side.owner, AGENT),
      frozen: await makeAgent(side.owner, AGENT),
      otherAwake: await makeAgent(side.other, AGENT),
      otherFrozen: await makeAgent(side.other, AGENT),
    };
    return side;
  }

  /** Measures each kind once. Each kind is the first one in every fourth round, since the first one may be slower. */
  async round(round: number): Promise<void> {
    const { awake, frozen, otherAwake, otherFrozen } = this.agents;
    const ask: Record<(typeof kinds)[number], () => Promise<Timed>> = {
      chat: () => timedChat(this.owner, awake),
      frozen_wake: () => timedWake(this.owner, frozen),
      other_account_chat: () => timedChat(this.other, otherAwake),
      other_account_frozen_wake: () => timedWake(this.other, otherFrozen),
    };
    for (let n = 0; n < kinds.length; n++) {
      const kind = kinds[(round + n) % kinds.length] as (typeof kinds)[number];
      this.times[kind].push(await ask[kind]());
    }
  }

  /** Starts slow work of the first account; returns a function that reports how much of it waits, and one that ends it. */
  async load(): Promise<{ figures: () => object; stop: () => Promise<void> }> {
    const slow = await together(
      Array.from({ length: SLOW_AGENTS }, (_, n) => n),
      8,
      () => makeAgent(this.owner, SLOW),
    );
    await together(
      Array.from({ length: NEVER_READY_DEPLOYMENTS }, () => NEVER_READY),
      8,
      (image) => orderAgent(this.owner, image),
    );
    await together(
      Array.from({ length: TRICKLING_PULLS }, () => TRICKLE),
      8,
      (image) => orderAgent(this.owner, image),
    );
    const stop = new AbortController();
    let unanswered = 0;
    const answers: Record<string, number> = {};
    const talk = async (n: number) => {
      let conversation_id: string | undefined;
      await span((n * REPLY_MS) / CONVERSATIONS);
      while (!stop.signal.aborted) {
        unanswered += 1;
        const path = `/api/agents/${slow[n % slow.length]}/chat`;
        const { status, body } = await this.owner.call('POST', path, { message: 'take your time', conversation_id });
        unanswered -= 1;
        answers[status] = (answers[status] ?? 0) + 1;
        conversation_id = body?.conversation_id ?? conversation_id;
        if (status !== 200) await span(1_000);
      }
    };
    const talks = Array.from({ length: CONVERSATIONS }, (_, n) => talk(n));
    await span(REPLY_MS);
    return {
      figures: () => ({ conversations_waiting: unanswered, answers_to_them: answers }),
      stop: async () => {
        stop.abort();
        // The outstanding responses are abandoned, because the service is killed.
        this.owner.close();
        await this.bed.service.kill();
        await Promise.all(talks);
      },
    };
  }
}

/**
 * Measures chats and wakes while a thousand conversations, a hundred deployments and twenty pulls wait, compared with a service without
 * them.
 */
export async function waiting(): Promise<object> {
  const sides: Side[] = [];
  try {
    sides.push(await Side.start(), await Side.start());
    const [quiet, busy] = sides as [Side, Side];
    const load = await busy.load();
    const end = performance.now() + MEASURE_MS;
    // Each side goes first in every other round, so that neither gains from what the other one leaves behind.
    for (let round = 0; round < ROUNDS && performance.now() < end; round++)
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) await side.round(round);
    const under = load.figures();
    await load.stop();
    const rows = kinds.map((kind) => {
      const [without, beside] = [quiet, busy].map(({ times }) => percentiles(times[kind])) as [Percentiles, Percentiles];
      const failed = busy.times[kind].filter(({ status }) => status !== 200).length;
      return { kind, rounds: busy.times[kind].length, without, beside, ratio: rounded(beside.p95 / without.p95), failed };
    });
    console.table(rows.map(({ without, beside, ...others }) => ({ ...others, without: inOneLine(without), beside: inOneLine(beside) })));
    return { aim: 'p95 at most 1.3 times that without', rows, ...under, load: machineLoad() };
  } finally {
    await Promise.all(sides.map(({ bed }) => bed.dispose()));
  }
}

interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

function percentiles(times: readonly Timed[]): Percentiles {
  const ms = times.map((time) => time.ms);
  return { p50: percentile(ms, 0.5), p95: percentile(ms, 0.95), p99: percentile(ms, 0.99) };
}

function inOneLine({ p50, p95, p99 }: Percentiles): string {
  return `p50 ${p50}, p95 ${p95}, p99 ${p99}`;
}
