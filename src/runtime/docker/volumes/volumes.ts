import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, statusOf, until } from '../engine/engine.ts';
import { hasLabels, labels, volumeName, type Labels } from '../engine/names.ts';

/** An existing volume. `isNew` is true if this call created it, so that nothing has been mounted on it yet. */
export interface EnsuredVolume {
  volume: Dockerode.VolumeInspectInfo;
  isNew: boolean;
}

/**
 * Creates the volume, or finds it. A new volume gets the quota if the engine can enforce one. Throws `RuntimeRefused` if a volume of that
 * name has other labels.
 */
export async function ensureLabelledVolume(
  docker: Dockerode,
  name: string,
  wanted: Labels,
  maxBytes: number | null = null,
): Promise<EnsuredVolume> {
  const standing = await findVolume(docker, name);
  // Creating an existing volume returns it unchanged.
  const create = (DriverOpts: Labels): Promise<unknown> =>
    call(null, (abortSignal) => docker.createVolume({ Name: name, Labels: wanted, DriverOpts, abortSignal }));
  if (standing === null)
    await create(maxBytes === null ? {} : { size: String(maxBytes) }).catch((error: unknown) => {
      // Most file systems do not support quotas for folders.
      if (error instanceof RuntimeRefused && /quota/i.test(error.message)) return create({});
      throw error;
    });
  const volume = standing ?? (await findVolume(docker, name));
  if (volume === null || !hasLabels(volume.Labels, wanted))
    throw new RuntimeRefused(`A volume named ${name} exists that this installation did not make.`);
  return { volume, isNew: standing === null };
}

export async function findVolume(docker: Dockerode, name: string): Promise<Dockerode.VolumeInspectInfo | null> {
  try {
    return await call(null, (abortSignal) => docker.getVolume(name).inspect({ abortSignal }));
  } catch (error) {
    if (statusOf(error) === 404) return null;
    throw error;
  }
}

/** Removes an agent's volume if it exists and is this instance's. Waits up to 5 s for a container that is being removed. */
export async function removeAgentVolume(docker: Dockerode, instance: string, agentId: string): Promise<void> {
  const name = volumeName(agentId);
  const found = await findVolume(docker, name);
  if (found === null || !hasLabels(found.Labels, { [labels.instance]: instance, [labels.agent]: agentId })) return;
  let inUse: unknown = null;
  const gone = await until(
    async () => {
      try {
        await call(null, (abortSignal) => docker.getVolume(name).remove({ abortSignal }));
        return true;
      } catch (error) {
        const status = statusOf(error);
        if (status === 404) return true;
        if (status !== 409) throw error;
        inUse = error;
        return null;
      }
    },
    50,
    100,
  );
  if (gone === null) throw inUse;
}
