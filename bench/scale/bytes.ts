import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import type { Caller } from '../support/caller.ts';
import { machineLoad, memoryMb, rounded } from '../support/figures.ts';
import { makeAgent, ScaleBed, together } from '../support/scale-bed.ts';

const IMAGE = 'bench/agent:1';
const HEAP_MB = 320;
const LARGE_CONVERSATIONS = 8;
const LARGE_MESSAGES = 40;
/** The number of characters of a large message, three bytes each; it is halved until the service accepts the message. */
const LARGE_CHARACTERS = 200_000;
const SMALL_CONVERSATIONS = 2_000;
const PAGES_MAX = 1_000;

/**
 * Measures the service's memory, with a small heap, over conversations of large messages and many small ones, and while all of them are
 * read.
 */
export async function bytes(): Promise<object> {
  const bed = await ScaleBed.start({
    engine: { programs: { [IMAGE]: messagesProgram({ reply: (text) => text }) } },
    nodeOptions: [`--max-old-space-size=${HEAP_MB}`],
  });
  try {
    const owner = bed.owner();
    const agentId = await makeAgent(owner, IMAGE);
    const { pid } = bed.service;
    const rows: object[] = [];
    const look = (after: string) => {
      if (!bed.service.running) throw new Error(`the service ended: ${bed.service.output.slice(-500)}`);
      rows.push({ after, rss_mb: memoryMb(pid).rss, most_mb: memoryMb(pid).peak });
    };
    look('its start');
    const figures: Record<string, unknown> = {};
    try {
      const large = await largeThreads(owner, agentId);
      figures.bytes_of_a_message = large.bytes;
      look(`${LARGE_CONVERSATIONS} conversations of ${LARGE_MESSAGES} messages of ${rounded(large.bytes / 1_000, 0)} kB`);
      const small = await together(
        Array.from({ length: SMALL_CONVERSATIONS }, () => 'a short message'),
        8,
        (text) => begin(owner, agentId, text),
      );
      look(`${SMALL_CONVERSATIONS} more conversations`);
      const read = await together([...large.ids, ...small.slice(0, 100)], 4, (id) => readThread(owner, agentId, id));
      look('reading the large threads four at a time, and 100 others');
      figures.messages_read = read.slice(0, LARGE_CONVERSATIONS);
      figures.pages = read.slice(0, LARGE_CONVERSATIONS).map((thread) => thread.pages);
      figures.all_large_threads_whole = read.slice(0, LARGE_CONVERSATIONS).every(({ messages }) => messages === 2 * LARGE_MESSAGES);
    } catch (error) {
      figures.failed = String(error).slice(0, 500);
    }
    console.table(rows);
    return { heap_mb: HEAP_MB, aim: 'at most 450 MB, every thread readable', rows, ...figures, load: machineLoad() };
  } finally {
    await bed.dispose();
  }
}

async function largeThreads(owner: Caller, agentId: string): Promise<{ ids: string[]; bytes: number }> {
  let characters = LARGE_CHARACTERS;
  const probe = async () => (await owner.call('POST', `/api/agents/${agentId}/chat`, { message: '€'.repeat(characters) })).status;
  // The service's own limit decides the size of a message.
  for (let status = await probe(); status === 400 || status === 413; status = await probe()) characters = Math.floor(characters / 2);
  const text = '€'.repeat(characters);
  const ids = await together(
    Array.from({ length: LARGE_CONVERSATIONS }, () => text),
    LARGE_CONVERSATIONS,
    async () => {
      const id = await begin(owner, agentId, text);
      for (let n = 1; n < LARGE_MESSAGES; n++)
        await owner.done('POST', `/api/agents/${agentId}/chat`, { message: text, conversation_id: id });
      return id;
    },
  );
  return { ids, bytes: characters * 3 };
}

async function begin(owner: Caller, agentId: string, message: string): Promise<string> {
  return (await owner.done('POST', `/api/agents/${agentId}/chat`, { message })).body.conversation_id;
}

/** Follows the pages' links to the end of the thread. */
async function readThread(owner: Caller, agentId: string, id: string): Promise<{ messages: number; pages: number }> {
  let messages = 0;
  let path: string | null = `/api/agents/${agentId}/conversations/${id}/messages`;
  for (let pages = 1; pages <= PAGES_MAX; pages++) {
    const { body, headers } = await owner.done('GET', path);
    messages += body.length;
    const next = /<([^>]+)>;\s*rel="next"/.exec(String(headers.link ?? ''))?.[1];
    if (next === undefined) return { messages, pages };
    const url = new URL(next, 'http://service');
    path = `${url.pathname}${url.search}`;
  }
  throw new Error('the pages of a thread do not end');
}
