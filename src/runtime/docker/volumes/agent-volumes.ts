import type Dockerode from 'dockerode';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { hasLabels, labels, volumeName, type Labels } from '../engine/names.ts';
import { VolumeRoots } from './volume-roots.ts';
import { ensureLabelledVolume, findVolume, removeAgentVolume } from './volumes.ts';

/** The volumes of agents, one each. */
export class AgentVolumes {
  readonly roots: VolumeRoots;

  constructor(
    private readonly docker: Dockerode,
    private readonly identities: ContainerIdentities,
    /** The quota of new volumes, on engines that enforce one; null stands for none. */
    private readonly maxBytes: number | null,
  ) {
    this.roots = new VolumeRoots(docker, identities);
  }

  async ensure(agentId: string): Promise<Dockerode.VolumeInspectInfo> {
    return this.roots.made(await ensureLabelledVolume(this.docker, volumeName(agentId), this.labelsOf(agentId), this.maxBytes));
  }

  async exists(agentId: string): Promise<boolean> {
    const volume = await findVolume(this.docker, volumeName(agentId));
    return hasLabels(volume?.Labels, this.labelsOf(agentId));
  }

  remove(agentId: string): Promise<void> {
    return removeAgentVolume(this.docker, this.identities.instance, agentId);
  }

  private labelsOf(agentId: string): Labels {
    return { [labels.instance]: this.identities.instance, [labels.agent]: agentId };
  }
}
