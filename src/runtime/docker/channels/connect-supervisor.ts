import type Dockerode from 'dockerode';
import { Channel } from '../../channel/channel.ts';
import { runtimeError } from '../../channel/channel-errors.ts';
import type { FilesChannel } from '../../channel/channel-files.ts';
import type { ContainerHandle } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call } from '../engine/engine.ts';
import { helperMount, identityOf, isAnonymousVolume, isHelperVolume, supervisorProgram, volumeName } from '../engine/names.ts';
import { ExecTransport } from './exec-transport.ts';

/** Opens a channel to the supervisor of a running container. Throws `RuntimeRefused`, `RuntimeUnavailable`, `ContainerGone`. */
export async function connectSupervisor(docker: Dockerode, handle: ContainerHandle): Promise<FilesChannel> {
  const container = docker.getContainer(handle);
  const folders = await foldersOf(container);
  const transport = await ExecTransport.open(container);
  try {
    return { channel: await call(handle, () => Channel.open(transport)), ...folders };
  } catch (error) {
    transport.close();
    throw runtimeError(error);
  }
}

/**
 * Returns the mount points of the agent's volume and of those that its image declares. Throws `RuntimeRefused` unless the container runs
 * and has a supervisor.
 */
async function foldersOf(container: Dockerode.Container): Promise<Omit<FilesChannel, 'channel'>> {
  const { State, Mounts, Config, Path } = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  if (State.Paused) throw new RuntimeRefused('The container is frozen, so nothing can be run in it.');
  if (!State.Running) throw new RuntimeRefused('The container does not run, so nothing can be run in it.');
  const isOurs = Mounts.some(({ Destination, Name }) => Destination === helperMount && isHelperVolume(Name));
  if (!isOurs || Path !== supervisorProgram) throw new RuntimeRefused('The container has no supervisor: restart the agent.');
  const volume = volumeName(identityOf(Config.Labels).agentId);
  const root = Mounts.find(({ Name }) => Name === volume)?.Destination;
  if (root === undefined) throw new RuntimeRefused('The container has no volume.');
  const declared = Mounts.flatMap(({ Name, Destination }) => (isAnonymousVolume(Name ?? '') ? [Destination] : []));
  // All volumes are on one file system, so reading one recursively would include those that are mounted inside it.
  const others = declared.filter((folder) => ![root, ...declared].some((above) => folder.startsWith(`${above}/`)));
  return { root, others };
}
