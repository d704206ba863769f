import { messagesProgram } from '../../test/support/engine-stand-in/program.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { cpuMs, machineLoad, rounded, summary } from '../support/figures.ts';
import { makeAgent, ScaleBed, together } from '../support/scale-bed.ts';

const IMAGE = 'bench/agent:1';
const CALLERS = 8;
const CHATS = 1_600;
/** The number of chats before the measured ones, so that the work of the compiler is over and does not count. */
const WARM_UP = 4_000;
const IDLE_MS = 20_000;
const SHORT_THREAD = 10;
const LONG_THREAD = 1_000;
/** The number of chats whose rows read are counted. */
const COUNTED = 100;
/** The longest delay, in ms, with which an idle connection reports its counts. */
const COUNTS_LATER_MS = 11_000;

/** This part measures what one chat costs: processor time of the service, transactions, and rows read, in short threads and in long ones. */
export async function chat(): Promise<object> {
  const bed = await ScaleBed.start({ engine: { programs: { [IMAGE]: messagesProgram() } } });
  try {
    const owner = bed.owner();
    const agents = await together(
      Array.from({ length: CALLERS }, () => IMAGE),
      CALLERS,
      (image) => makeAgent(owner, image),
    );
    const ids = await Promise.all(agents.map((agentId) => say(owner, agentId)));
    const many = async (count: number) => {
      const times: number[] = [];
      const one = async (agentId: string, n: number) => {
        for (let left = count / CALLERS; left > 0; left--) times.push(await sayIn(owner, agentId, ids[n] as string));
      };
      await Promise.all(agents.map(one));
      return times;
    };
    await many(WARM_UP);
    const idle = await spent(bed, () => span(IDLE_MS));
    const busy = await spent(bed, () => many(CHATS));
    const figures = {
      callers: CALLERS,
      chats: CHATS,
      chat_ms: summary(busy.result),
      service_cpu_ms_per_chat: rounded((busy.cpu - (idle.cpu / idle.ms) * busy.ms) / CHATS),
      transactions_per_chat: perOne('transactions', idle, busy, CHATS),
      rows_per_chat: await rowsByLength(bed, owner),
    };
    console.table([{ ...figures, chat_ms: figures.chat_ms.p50, rows_per_chat: JSON.stringify(figures.rows_per_chat) }]);
    return { aim: 'at most 3 ms, 5 transactions, rows independent of the length', ...figures, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

/** Returns the number of rows of the log that one chat reads, by the length of its thread. */
async function rowsByLength(bed: ScaleBed, owner: Caller): Promise<Record<number, number>> {
  const rows: Record<number, number> = {};
  const agentId = await makeAgent(owner, IMAGE);
  const id = await say(owner, agentId);
  let length = 1;
  for (const wanted of [SHORT_THREAD, LONG_THREAD]) {
    for (; length < wanted; length++) await sayIn(owner, agentId, id);
    const idle = await spent(bed, () => span(IDLE_MS / 4));
    const busy = await spent(bed, async () => {
      for (let n = 0; n < COUNTED; n++) await sayIn(owner, agentId, id);
    });
    length += COUNTED;
    rows[wanted] = perOne('rows', idle, busy, COUNTED);
  }
  return rows;
}

interface Counts {
  transactions: number;
  /** The number of rows of the log that were read. */
  rows: number;
}

interface Spent<Result> extends Counts {
  result: Result;
  ms: number;
  cpu: number;
  /** The time, in ms, over which the counts were taken. */
  countedMs: number;
}

/** Returns the cost of one of `many`, less the idle service's cost in that time. */
function perOne(what: keyof Counts, idle: Spent<unknown>, busy: Spent<unknown>, many: number): number {
  return rounded((busy[what] - (idle[what] / idle.countedMs) * busy.countedMs) / many);
}

async function spent<Result>(bed: ScaleBed, work: () => Promise<Result>): Promise<Spent<Result>> {
  const before = await counts(bed);
  const [cpu, began] = [cpuMs(bed.service.pid), performance.now()];
  const result = await work();
  const ms = performance.now() - began;
  const used = cpuMs(bed.service.pid) - cpu;
  const after = await counts(bed);
  const [transactions, rows] = [after.transactions - before.transactions, after.rows - before.rows];
  return { result, ms, cpu: used, transactions, rows, countedMs: after.at - before.at };
}

async function counts(bed: ScaleBed): Promise<Counts & { at: number }> {
  await span(COUNTS_LATER_MS);
  const [found] = await bed.query<{ transactions: string; rows: string }>(
    `select (select xact_commit + xact_rollback from pg_stat_database where datname = current_database()) as transactions,
            (select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_user_tables where relname like 'es\\_event%') as rows`,
  );
  return { transactions: Number(found?.transactions), rows: Number(found?.rows), at: performance.now() };
}

async function say(owner: Caller, agentId: string): Promise<string> {
  return (await owner.done('POST', `/api/agents/${agentId}/chat`, { message: 'hello' })).body.conversation_id;
}

async function sayIn(owner: Caller, agentId: string, conversation_id: string): Promise<number> {
  return (await owner.done('POST', `/api/agents/${agentId}/chat`, { message: 'hello', conversation_id })).ms;
}
