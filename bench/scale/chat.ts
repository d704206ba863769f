import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, summary } from '../support/figures.ts';
import { makeAgent, ScaleBed, together } from '../support/scale-bed.ts';
import { cpuOfOne, perOne, spent } from '../support/spent.ts';

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
      service_cpu_ms_per_chat: cpuOfOne(idle, busy, CHATS),
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

async function say(owner: Caller, agentId: string): Promise<string> {
  return (await owner.done('POST', `/api/agents/${agentId}/chat`, { message: 'hello' })).body.conversation_id;
}

async function sayIn(owner: Caller, agentId: string, conversation_id: string): Promise<number> {
  return (await owner.done('POST', `/api/agents/${agentId}/chat`, { message: 'hello', conversation_id })).ms;
}
