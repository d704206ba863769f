import type Dockerode from 'dockerode';

/**
 * Puts a container as earlier releases made them instead of the agent's own: with a name of its id and generation, and without a code.
 * It runs, is frozen, or has ended, as the own one. Returns its name.
 */
export async function makeOutdated(docker: Dockerode, agentId: string, environment: Record<string, string> = {}): Promise<string> {
  const [own] = await docker.listContainers({ all: true, filters: { label: [`mooring.agent=${agentId}`] } });
  if (own === undefined) throw new Error(`agent ${agentId} has no container`);
  const { Image, Config, HostConfig } = await docker.getContainer(own.Id).inspect();
  await docker.getContainer(own.Id).remove({ force: true });
  const { 'mooring.code': _, 'mooring.supervised': __, ...Labels } = Config.Labels;
  const name = `mooring-${agentId}-g${Labels['mooring.generation']}`;
  const { Cmd, User, WorkingDir } = Config;
  // The command follows the supervisor and its first argument.
  const Entrypoint = [Config.Entrypoint ?? []].flat().slice(2);
  const Env = Object.entries(environment).map(([variable, value]) => `${variable}=${value}`);
  const made = await docker.createContainer({ name, Image, Entrypoint, Cmd, Env, User, WorkingDir, Labels, HostConfig });
  await made.start();
  if (own.State === 'paused') await made.pause();
  if (own.State === 'exited') await made.stop({ t: 10 });
  return name;
}
