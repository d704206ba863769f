import type Dockerode from 'dockerode';
import type { AgentAddress } from '../../../kernel/network/agent-address.ts';
import type { AgentPorts } from '../../agent-ports.ts';
import type { ContainerName } from '../../container.ts';
import { ContainerGone, RuntimeRefused } from '../../runtime.errors.ts';
import type { ContainerLookup } from './container-lookup.ts';
import type { ContainerIdentities } from '../engine/container-identities.ts';
import { networkKinds, networkName } from '../engine/names.ts';
import type { AgentNetworks } from '../networks/agent-networks.ts';
import { PortRules, type GuardedPorts } from '../networks/port-rules.ts';
import type { Nft } from '../networks/nft.ts';
import { isPublishedAt, loopbackPorts, type PublishedPorts } from '../networks/published-ports.ts';

export interface ReachOptions {
  identities: ContainerIdentities;
  containers: ContainerLookup;
  networks: AgentNetworks;
  /** The ports that are published if agents are not reached by their own addresses; null means ports of the loopback address. */
  ports: GuardedPorts | null;
  nft: Pick<Nft, 'run'>;
  logger?: { log(fields: object, message: string): void; warn(fields: object, message: string): void };
  /** The socket file of the relay through which agents are reached; null if they are reached from here. */
  relay: string | null;
}

/** Finds the addresses of agents: their own, or those of the ports that the engine publishes for them. */
export class AgentReach {
  private readonly ports: PublishedPorts;
  /** The rules that protect the ports from other clients; null if no other client can reach them. */
  private readonly rules: PortRules | null;

  constructor(private readonly options: ReachOptions) {
    const { ports, nft, identities, logger } = options;
    this.ports = ports ?? loopbackPorts;
    const onChange = (lack: string | null) =>
      lack === null
        ? logger?.log({}, 'only the service reaches the ports of agents again')
        : logger?.warn({ reason: lack }, 'OTHERS ARE NOT KEPT FROM THE PORTS OF AGENTS (MOORING_AGENT_BIND_ADDRESS)');
    this.rules = ports === null ? null : new PortRules(nft, identities.instance, ports, onChange);
  }

  /** Returns the ports that are published for new containers; null if these are reached by their own addresses. */
  async published(): Promise<PublishedPorts | null> {
    return (await this.options.networks.isPublished()) ? this.ports : null;
  }

  /**
   * Returns whether a container that is about to start would be reachable. One that was created for the other kind of address is not, but
   * is left alone if it runs. Throws `RuntimeRefused` if other clients could reach it too.
   */
  async canReach({ State, HostConfig }: Dockerode.ContainerInspectInfo): Promise<boolean> {
    const published = await this.published();
    if (published === null) return true;
    await this.rules?.ensure();
    return State.Running || isPublishedAt(HostConfig.PortBindings as Dockerode.PortMap, published);
  }

  /** Notes that another engine may respond, or that the engine may have restarted. */
  invalidate(): void {
    const { networks } = this.options;
    networks.resetDecision();
    if (this.rules === null) return;
    networks.isPublished().then(
      (isPublished) => isPublished && this.rules?.invalidate(),
      () => undefined,
    );
  }

  /** Returns the address, as `ContainerRuntime.address` does. */
  async address(container: ContainerName, port: number): Promise<AgentAddress> {
    const { identities, containers, networks, relay } = this.options;
    const name = identities.nameOf(container);
    const found = await containers.inspect(name);
    if (containers.identify(found) === null) throw new ContainerGone(name);
    if (found.State.Status !== 'running') throw new RuntimeRefused('The container does not run, so it has no address.');
    const address = (await networks.isPublished()) ? publishedAddress(found, port) : this.ownAddress(found, port);
    return relay === null ? address : { ...address, relay };
  }

  /** Returns the state of the ports, as `ContainerRuntime.agentPorts` does. */
  async state(): Promise<AgentPorts | null> {
    if (this.rules === null || !(await this.options.networks.isPublished())) return null;
    return { lack: this.rules.lack, weakness: 'messages to agents travel in clear between the service and the machine of the engine' };
  }

  close(): void {
    this.rules?.close();
  }

  private ownAddress({ NetworkSettings }: Dockerode.ContainerInspectInfo, port: number): AgentAddress {
    const { instance } = this.options.identities;
    const host = networkKinds.map((kind) => NetworkSettings.Networks[networkName(instance, kind)]?.IPAddress).find(Boolean);
    if (!host) throw new RuntimeRefused('The container is not on the agents’ network.');
    return { host, port };
  }
}

function publishedAddress({ NetworkSettings }: Dockerode.ContainerInspectInfo, port: number): AgentAddress {
  const place = NetworkSettings.Ports[`${port}/tcp`]?.[0];
  if (place === undefined) throw new RuntimeRefused(`Port ${port} of the container is not published: restart the agent.`);
  return { host: place.HostIp, port: Number(place.HostPort), programPort: port };
}
