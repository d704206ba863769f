import type { Duplex } from 'node:stream';
import type Dockerode from 'dockerode';
import type { ContainerIdentities } from './container-identities.ts';
import { call, ignoring } from './engine.ts';

/**
 * Attaches to the input of a container that was created to read it. The input ends with this process, so a container whose program ends
 * with its input ends too.
 */
export async function attachInput(container: Dockerode.Container): Promise<Duplex> {
  const input = (await call(null, () => container.attach({ stream: true, stdin: true, hijack: true }))) as unknown as Duplex;
  // A broken input has ended, which the container notices itself.
  return input.on('error', () => undefined).resume();
}

/**
 * Kills a container with all that runs in it, and removes it with its anonymous volumes. It does nothing if there is no such container, or,
 * with 409 among `passedOver`, if the engine is already removing it.
 */
export async function removeContainer(container: Dockerode.Container, passedOver: readonly number[] = [404]): Promise<void> {
  await call(null, (abortSignal) => container.remove({ force: true, v: true, abortSignal })).catch(ignoring(...passedOver));
}

/**
 * Runs the callback with a new container of the image that is never started, to work on its files, and then removes the container. The
 * container is the agent's generation 0, so one left by a crash is removed like every lower generation.
 */
export async function withUnstarted<T>(
  docker: Dockerode,
  identities: ContainerIdentities,
  { agentId, image, hostConfig }: { agentId: string; image: string; hostConfig: Dockerode.HostConfig },
  work: (container: Dockerode.Container) => Promise<T>,
): Promise<T> {
  const identity = { agentId, generation: 0, deploymentId: '' };
  const name = identities.nameOf(identity);
  const options = {
    name,
    Image: image,
    Entrypoint: ['never-started'],
    Labels: identities.labelsOf(identity),
    HostConfig: { NetworkMode: 'none', ...hostConfig },
  };
  await removeContainer(docker.getContainer(name));
  const container = await call(null, (abortSignal) => docker.createContainer({ ...options, abortSignal }));
  try {
    return await work(container);
  } finally {
    await removeContainer(container);
  }
}

/**
 * Removes a container, and resolves when it is gone: a removal may continue after its response, and keeps the name, the image and the
 * volumes in use. The removal of a container that has ended by itself may have begun already.
 */
export async function removeUntilGone(container: Dockerode.Container): Promise<void> {
  await removeContainer(container, [404, 409]);
  await call(null, (abortSignal) => container.wait({ condition: 'removed', abortSignal })).catch(ignoring(404, 409));
}
