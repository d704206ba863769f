import { readFile } from 'node:fs/promises';

import { FrameworkAgent, frameworkEnvironment, processesOf } from '../test/support/framework-agent.ts';
import { ModelServer } from '../test/support/model-server.ts';
import { StartedService } from '../test/support/started-service.ts';
import { machineLoad } from './support/figures.ts';

const frameworks = ['langgraph', 'openclaw', 'crewai'];
const TIMEOUT_MS = 1_800_000;

/**
 * Deploys an agent of each framework's template on the local runtime, and has it keep its conversation while it is frozen, stopped and
 * deployed again. Prints the times in seconds, and the memory of its processes in MB. npm and PyPI have to answer. `part` is one template.
 */
export async function run(part?: string): Promise<object> {
  const model = await ModelServer.start();
  const service = await StartedService.start({ runtime: 'local', environment: frameworkEnvironment });
  const figures: Record<string, object> = {};
  try {
    for (const name of frameworks.filter((each) => part === undefined || each === part)) {
      figures[name] = await lifeOf(name, service, model);
      console.table(figures);
    }
    return { ...figures, load: machineLoad() };
  } finally {
    await service.dispose();
    await model.stop();
  }
}

async function lifeOf(name: string, service: StartedService, model: ModelServer): Promise<object> {
  let agent: FrameworkAgent | undefined;
  const said: string[] = [];
  const says = async (word: string) => {
    said.push(word);
    const reply = await agent?.says(word);
    if (reply !== `I remember ${said.join(' ')}`) throw new Error(`${name} forgot: it was told ${said.join(' ')} and said: ${reply}`);
  };
  const deployed = await seconds(async () => (agent = await FrameworkAgent.deploy(service, model, name, TIMEOUT_MS)));
  const firstReply = await seconds(() => says('#one'));
  const reply = await seconds(() => says('#two'));
  const memoryMb = await memoryOf(agent?.id ?? '');
  await agent?.freeze();
  const frozenWake = await seconds(() => says('#three'));
  await agent?.sleepDeeply(TIMEOUT_MS);
  const stoppedWake = await seconds(() => says('#four'));
  const redeployed = await seconds(() => agent?.redeploy(TIMEOUT_MS));
  await says('#five');
  return { deployed, firstReply, reply, memoryMb, frozenWake, stoppedWake, redeployed };
}

async function seconds(work: () => Promise<unknown> | undefined): Promise<number> {
  const began = performance.now();
  await work();
  return Math.round((performance.now() - began) / 100) / 10;
}

/** Returns the memory, in MB, of all processes of the agent, with their share of what several use. */
async function memoryOf(agentId: string): Promise<number> {
  let kilobytes = 0;
  for (const pid of await processesOf(agentId)) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
    kilobytes += Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0);
  }
  return Math.round(kilobytes / 1_024);
}
