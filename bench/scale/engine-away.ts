import { messagesProgram } from '../../test/support/fake-docker-engine/program.ts';
import { span } from '../../test/support/until.ts';
import { machineLoad, summary } from '../support/figures.ts';
import { makeAgent, ScaleBed, timedChat } from '../support/scale-bed.ts';

const IMAGE = 'bench/agent:1';
const CHATS = 10;
/** The time after the engine's return, in ms, after which a refused message can no longer arrive. */
const LATER_MS = 20_000;

/** Measures chats while the engine is away, with an agent that is awake and one that is frozen, and what is delivered after it is back. */
export async function engineAway(): Promise<object> {
  const heard = new Set<string>();
  const program = messagesProgram({ onMessage: ({ text }) => heard.add(text) });
  const bed = await ScaleBed.start({ engine: { programs: { [IMAGE]: program } }, environment: { MOORING_REPLY_TIMEOUT: '20' } });
  try {
    const owner = bed.owner();
    const awake = await makeAgent(owner, IMAGE);
    const frozen = await makeAgent(owner, IMAGE);
    const before: number[] = [];
    for (let n = 0; n < CHATS; n++) before.push((await timedChat(owner, awake, `before ${n}`)).ms);
    await owner.done('POST', `/api/agents/${frozen}/sleep`, undefined, { prefer: 'wait=30' });
    await bed.engine.goAway();
    const chats = [awake, frozen].flatMap((agentId, agent) =>
      Array.from({ length: CHATS }, (_, n) => ({ agentId, text: `away ${agent} ${n}` })),
    );
    const answers = await Promise.all(
      chats.map(({ agentId, text }) => owner.call('POST', `/api/agents/${agentId}/chat`, { message: text })),
    );
    await bed.engine.comeBack();
    await span(LATER_MS);
    const statuses: Record<string, number> = {};
    for (const { status, body } of answers)
      statuses[`${status} ${body?.code ?? ''}`] = (statuses[`${status} ${body?.code ?? ''}`] ?? 0) + 1;
    const refused = chats.filter((_, n) => (answers[n]?.status ?? 0) >= 300);
    const after = await timedChat(owner, frozen, 'after');
    return {
      answered_before_ms: summary(before),
      answers: statuses,
      answer_ms: summary(answers.map(({ ms }) => ms)),
      refused_but_delivered_later: refused.filter(({ text }) => heard.has(text)).length,
      chat_after: after,
      aim: 'every answer 503 within 1 000 ms, none delivered later',
      load: machineLoad(),
    };
  } finally {
    await bed.dispose();
  }
}
