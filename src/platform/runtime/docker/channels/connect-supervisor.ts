import type Dockerode from 'dockerode';
import { Channel } from '../../channel/channel.ts';
import { runtimeError } from '../../channel/channel-errors.ts';
import type { FilesChannel } from '../../channel/channel-files.ts';
import { RuntimeRefused, type ContainerHandle } from '../../runtime.ts';
import { call } from '../engine/engine.ts';
import { helperMount, identityOf, isHelperVolume, supervisorProgram, volumeName } from '../engine/names.ts';
import { ExecTransport } from './exec-transport.ts';

/** Opens a channel to the supervisor of a running container. Throws `RuntimeRefused`, `RuntimeUnavailable`, `ContainerGone`. */
export async function connectSupervisor(docker: Dockerode, handle: ContainerHandle): Promise<FilesChannel> {
  const container = docker.getContainer(handle);
  const root = await volumeOf(container);
  const transport = await ExecTransport.open(container);
  try {
    return { channel: await call(handle, () => Channel.open(transport)), root };
  } catch (error) {
    transport.close();
    throw runtimeError(error);
  }
}

/** Returns the mount point of the agent's volume. Throws `RuntimeRefused` unless the container runs and has a supervisor. */
async function volumeOf(container: Dockerode.Container): Promise<string> {
  const { State, Mounts, Config, Path } = await call(container.id, (abortSignal) => container.inspect({ abortSignal }));
  if (State.Paused) throw new RuntimeRefused('The container is frozen, so nothing can be run in it.');
  if (!State.Running) throw new RuntimeRefused('The container does not run, so nothing can be run in it.');
  const isOurs = Mounts.some(({ Destination, Name }) => Destination === helperMount && isHelperVolume(Name));
  if (!isOurs || Path !== supervisorProgram) throw new RuntimeRefused('The container has no supervisor: restart the agent.');
  const volume = volumeName(identityOf(Config.Labels).agentId);
  const root = Mounts.find(({ Name }) => Name === volume)?.Destination;
  if (root === undefined) throw new RuntimeRefused('The container has no volume.');
  return root;
}
