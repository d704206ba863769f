import { check, differs, type Exception } from './outcome.ts';
import { agentNamed, type Part, type Walk } from './step.ts';

const AGENT = 'an agent with limits runs';
/** The limits of the check's agents. */
export const LIMITS = { memoryMb: 192, pids: 64 };
const PROCESSES = 100;
const MARK = 'all began';

const agent = (walk: Walk): string => agentNamed(walk, 'limited');

/** The limits of agents, measured inside of one: engines report the requested limits even if they do not enforce them. */
export const limitsPart: Part = {
  name: 'limits',
  steps: [
    { name: AGENT, seconds: 120, run: runs },
    { name: 'a process that takes more memory than its agent has is killed', seconds: 90, needs: AGENT, run: holdsMemory },
    { name: 'an agent starts no more processes than it may', seconds: 90, needs: AGENT, run: holdsProcesses },
  ],
};

async function runs(walk: Walk): Promise<void> {
  const image = await walk.images.make('limits', 'within limits');
  walk.agents.set('limited', await walk.api.provision('limited', { image: 'docker', image_name: image }));
  await walk.api.replies(agent(walk), 'within limits');
}

async function holdsMemory(walk: Walk): Promise<Exception | void> {
  // dd fills one block of that size.
  const block = `bs=${2 * LIMITS.memoryMb}M`;
  const { exitCode } = await walk.api.exec(agent(walk), ['/bin/busybox', 'dd', 'if=/dev/zero', 'of=/dev/null', block, 'count=1'], 60);
  if (exitCode === 0)
    return unlimited(walk, `a process took ${2 * LIMITS.memoryMb} MiB in an agent with ${LIMITS.memoryMb}`, /limit.*memory/i);
  // The memory limit ended the process, not the agent.
  await walk.api.active(agent(walk));
  await walk.api.replies(agent(walk), 'within limits');
}

async function holdsProcesses(walk: Walk): Promise<Exception | void> {
  const script = `i=0; while [ $i -lt ${PROCESSES} ]; do /bin/busybox sleep 5 & i=$((i + 1)); done; echo ${MARK}`;
  const { stdout } = await walk.api.exec(agent(walk), ['/bin/busybox', 'sh', '-c', script], 60);
  if (stdout.includes(MARK)) return unlimited(walk, `${PROCESSES} processes began in an agent with ${LIMITS.pids}`, /limit.*process/i);
}

/** An engine without a limit counts as a difference only if the service reports it. */
async function unlimited(walk: Walk, seen: string, words: RegExp): Promise<Exception> {
  const said = await walk.api.readiness(words);
  check(said !== null, `${seen}, and /ready says nothing of it`);
  return differs(`${seen}; /ready says: ${said}`);
}
