import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';

import Dockerode from 'dockerode';

import { FrameworkAgent, frameworkEnvironment, processesOf, type FrameworkSource } from '../test/support/framework-agent.ts';
import { frameworkRepositories } from '../test/support/framework-repositories.ts';
import { GitServer } from '../test/support/git-server.ts';
import { ModelServer } from '../test/support/model-server.ts';
import { StartedService } from '../test/support/started-service.ts';
import { machineLoad } from './support/figures.ts';

const templates = ['langgraph', 'openclaw', 'crewai'];
const TIMEOUT_MS = 1_800_000;
const MIB = 1_048_576;

/** A way to run the agents: the source of each by its name, and the service and the model that they use. */
interface Bed {
  service: StartedService;
  modelUrl: string;
  sources: Record<string, FrameworkSource>;
  /** The engine that the agents run on; null if they are processes of this machine. */
  docker: Dockerode | null;
}

/**
 * Deploys an agent of each framework, and has it keep its conversation while it is frozen, stopped, started and deployed again. Prints the
 * times in seconds, and the memory and what was installed in MB. npm and PyPI have to answer. Without a part, the agents are those of the
 * templates, on the local runtime; `repositories` and `docker` are agents of Git repositories, on the local runtime and on Docker. A name
 * after a slash, or alone, is that agent only: `langgraph`, `docker/crewai`.
 */
export async function run(part = ''): Promise<object> {
  const [kind = '', only] = ['repositories', 'docker'].includes(part.split('/')[0] ?? '')
    ? part.split('/')
    : ['templates', part || undefined];
  const docker = kind === 'docker' ? new Dockerode() : null;
  const host = docker === null ? '127.0.0.1' : ownAddress();
  const model = await ModelServer.start(host);
  const git = await GitServer.start();
  const environment = {
    ...frameworkEnvironment,
    MOORING_ALLOW_PRIVATE_SOURCES: git.host,
    ...(docker === null ? {} : { MOORING_AGENT_EGRESS_PRIVATE: `${host}:${model.port}` }),
  };
  const service = await StartedService.start({ runtime: docker === null ? 'local' : 'docker', environment });
  const sources = kind === 'templates' ? templateSources() : repositorySources(git);
  const figures: Record<string, object> = {};
  try {
    for (const name of Object.keys(sources).filter((each) => only === undefined || each === only)) {
      figures[name] = await lifeOf(name, { service, modelUrl: model.url, sources, docker });
      console.table(figures);
    }
    return { ...figures, load: machineLoad() };
  } finally {
    await service.dispose();
    await git.close();
    await model.stop();
  }
}

function templateSources(): Bed['sources'] {
  return Object.fromEntries(templates.map((name) => [name, { templateId: name }]));
}

function repositorySources(git: GitServer): Bed['sources'] {
  return Object.fromEntries(
    Object.entries(frameworkRepositories).map(([name, files]) => {
      git.commit(name, files);
      return [name, { repo_url: git.url(name) }];
    }),
  );
}

/** Returns an address under which containers reach this machine. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const found = all.find(({ family, internal }) => family === 'IPv4' && !internal);
  if (found === undefined) throw new Error('this machine has no address that containers reach');
  return found.address;
}

async function lifeOf(name: string, { service, modelUrl, sources, docker }: Bed): Promise<object> {
  let agent: FrameworkAgent | undefined;
  const said: string[] = [];
  const says = async (word: string) => {
    said.push(word);
    const reply = await agent?.says(word);
    if (reply !== `I remember ${said.join(' ')}`) throw new Error(`${name} forgot: it was told ${said.join(' ')} and said: ${reply}`);
  };
  const source = sources[name] as FrameworkSource;
  const deployed = await seconds(async () => (agent = await FrameworkAgent.deploy(service, modelUrl, source, TIMEOUT_MS)));
  const firstReply = await seconds(() => says('#one'));
  const reply = await seconds(() => says('#two'));
  const { memoryMb, imageMb } = docker === null ? await locally(agent?.id ?? '') : await onDocker(docker, agent?.id ?? '');
  await agent?.freeze();
  const frozenWake = await seconds(() => says('#three'));
  await agent?.sleepDeeply(TIMEOUT_MS);
  const stoppedWake = await seconds(() => says('#four'));
  await agent?.stopAndStart(TIMEOUT_MS);
  await says('#five');
  const redeployed = await seconds(() => agent?.redeploy(TIMEOUT_MS));
  await says('#six');
  return { deployed, firstReply, reply, memoryMb, imageMb, frozenWake, stoppedWake, redeployed };
}

async function seconds(work: () => Promise<unknown> | undefined): Promise<number> {
  const began = performance.now();
  await work();
  return Math.round((performance.now() - began) / 100) / 10;
}

/** Returns the memory, in MB, of all processes of the agent, with their share of what several use. Its packages are files of this machine. */
async function locally(agentId: string): Promise<{ memoryMb: number; imageMb: null }> {
  let kilobytes = 0;
  for (const pid of await processesOf(agentId)) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
    kilobytes += Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0);
  }
  return { memoryMb: Math.round(kilobytes / 1_024), imageMb: null };
}

/** Returns the memory of the agent's container without what the kernel may reclaim immediately, and the size of its image, in MB. */
async function onDocker(docker: Dockerode, agentId: string): Promise<{ memoryMb: number; imageMb: number }> {
  const [container] = await docker.listContainers({ filters: { label: [`mooring.agent=${agentId}`] } });
  if (container === undefined) throw new Error('the agent has no container');
  const { memory_stats: memory } = await docker.getContainer(container.Id).stats({ stream: false });
  const { Size } = await docker.getImage(container.ImageID).inspect();
  return {
    memoryMb: Math.round((memory.usage - (memory.stats as { inactive_file?: number }).inactive_file!) / MIB),
    imageMb: Math.round(Size / MIB),
  };
}
