import type Dockerode from 'dockerode';
import { encodeVariables } from '../../channel/variables.ts';
import type { ContainerHandle } from '../../container.ts';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { hasLeftoverTask, hasLostNetwork, isBridgeFull } from '../engine/engine.ts';
import { isListedKind, networkKindOf, networkName, type NetworkKind } from '../engine/names.ts';
import type { AgentEgress } from '../networks/agent-egress.ts';
import type { AgentNetworks } from '../networks/agent-networks.ts';
import type { AgentReach } from './agent-reach.ts';
import type { ContainerLife } from './container-life.ts';
import type { ContainerLookup } from './container-lookup.ts';
import type { GuardedStart } from './guarded-start.ts';
import { replacedVariables } from './hardening.ts';

const BRIDGE_FULL =
  'There is no room for one more running agent: a network of the container engine takes about 1,020. Stop one, or let one go to sleep.';

/** The parts of the runtime that create and start agents' containers. */
export interface AgentParts {
  containers: ContainerLookup;
  life: ContainerLife;
  starts: GuardedStart;
  agentEgress: AgentEgress;
  networks: AgentNetworks;
  reach: AgentReach;
}

/**
 * Starts agents' containers on networks whose rules enforce their egress. A container that can't serve is removed, so that another one is
 * created.
 */
export class AgentStart {
  constructor(private readonly parts: AgentParts & { instance: string }) {}

  /** Starts the container with these variables (see `ContainerRuntime.start`). */
  async start(handle: ContainerHandle, environment: Readonly<Record<string, string>>): Promise<boolean> {
    const { instance, containers, life, starts, agentEgress, networks, reach } = this.parts;
    await agentEgress.settle();
    const made = await containers.inspect(handle);
    const kind = this.kindOf(made);
    if (agentEgress.isUnenforced) agentEgress.assertEnforceable(kind);
    if (!((await starts.isStartable(made)) && (await reach.canReach(made)))) await life.removeForAnother(handle);
    const variables = encodeVariables(environment, replacedVariables(environment));
    try {
      return await starts.start(handle, variables);
    } catch (error) {
      if (!(error instanceof RuntimeRefused)) throw error;
      if (hasLeftoverTask(error) || hasLostNetwork(error)) await life.removeForAnother(handle);
      if (isBridgeFull(error)) throw new RuntimeRefused(BRIDGE_FULL, { cause: error });
      if (!error.message.includes(networkName(instance))) throw error;
      // The network was removed while no container ran on it. The next network may have another range, and the container of an agent with a
      // list has an address in the lost one.
      if (isListedKind(kind)) await life.removeForAnother(handle);
      await networks.ensure(kind);
      agentEgress.assertEnforceable(kind);
      return starts.start(handle, variables);
    }
  }

  private kindOf({ HostConfig }: Dockerode.ContainerInspectInfo): NetworkKind {
    return networkKindOf(this.parts.instance, HostConfig.NetworkMode) ?? 'open';
  }
}
