import type Dockerode from 'dockerode';
import { retry } from '../../../kernel/async/retry.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call, ignoring } from '../engine/engine.ts';
import { hasLabels, labels } from '../engine/names.ts';
import { removeContainer } from '../engine/own-containers.ts';
import type { AgentEgress } from './agent-egress.ts';
import { networkOptions, networksOfBuilds } from './bridges.ts';
import { bridgeOf } from './links.ts';

/** The attempts to remove a network, about 10 s in total: the engine stops the container of an aborted step with a delay. */
const REMOVAL = { firstMs: 50, lastMs: 1_000, attempts: 15 };
/** The time after which a container that was created but not started belongs to a service that is gone, in ms. */
const START_MS = 10 * 60_000;

/**
 * Creates a network for each build by the engine's own builder, so that no build shares a link with an agent or another build. Each network
 * belongs to a container with the same name, which ends with the process that created it: a network without its container is left over.
 */
export class BuildNetworks {
  constructor(
    private readonly docker: Dockerode,
    private readonly instance: string,
    private readonly egress: AgentEgress,
  ) {}

  /** Creates the network that belongs to the container of this name. Resolves when the egress rules cover the network. */
  async create(name: string): Promise<void> {
    const network = {
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Options: networkOptions('builds'),
      Labels: { [labels.instance]: this.instance, [labels.build]: name },
    };
    const { id } = await call(null, (abortSignal) => this.docker.createNetwork({ ...network, abortSignal }));
    const made: Dockerode.NetworkInspectInfo = await call(null, () => this.docker.getNetwork(id).inspect());
    await this.egress.cover(bridgeOf(made));
  }

  /** Removes the network, once no container is on it any more. */
  async remove(nameOrId: string): Promise<void> {
    const removed = async () => {
      await call(null, () => this.docker.getNetwork(nameOrId).remove()).catch(ignoring(404));
    };
    await retry(removed, { ...REMOVAL, mayPass: (error) => error instanceof RuntimeRefused });
  }

  /** Removes the networks and containers of builds whose service is gone. */
  async removeLeftOvers(): Promise<void> {
    // A network is created after its container, so this order finds the container of each running build.
    const networks = await networksOfBuilds(this.docker, this.instance);
    const filters = JSON.stringify({ label: [`${labels.instance}=${this.instance}`, labels.build] });
    const listed = await call(null, (abortSignal) => this.docker.listContainers({ all: true, filters, abortSignal }));
    const holders = listed.filter(({ Labels, Names }) => hasLabels(Labels, { [labels.build]: (Names[0] ?? '').replace(/^\//, '') }));
    const names = new Set(holders.map(({ Labels }) => Labels[labels.build]));
    for (const { Id, Labels } of networks) if (!names.has(Labels?.[labels.build])) await this.remove(Id);
    for (const { Id, State, Created } of holders) {
      if (State !== 'created' || Date.now() - Created * 1_000 < START_MS) continue;
      await removeContainer(this.docker.getContainer(Id));
    }
  }
}
