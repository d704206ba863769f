import type Dockerode from 'dockerode';

/** The ports that the engine publishes for agents. */
export interface PublishedPorts {
  /** The address of the engine's machine on which it publishes them. */
  address: string;
  /** The range from which it chooses; '' stands for any that is free. */
  ports: string;
}

/** The loopback address, which only programs on the engine's machine can reach. */
export const loopbackPorts: PublishedPorts = { address: '127.0.0.1', ports: '' };

/** Returns the setting with which the engine publishes the port of a new container, on a host port that the engine chooses. */
export const portBindings = (port: number, { address, ports }: PublishedPorts): Dockerode.PortMap => ({
  [`${port}/tcp`]: [{ HostIp: address, HostPort: ports }],
});

type Ports = Dockerode.PortMap | null | undefined;

/** Returns whether the ports of one container are published as requested for another one. */
export function hasSamePorts(one: Ports, other: Ports): boolean {
  return textOf(one) === textOf(other);
}

/** Returns whether a container has the network and the published ports that another container needs. */
export function isMadeAs(one: Dockerode.HostConfig, other: Dockerode.HostConfig = {}): boolean {
  return one.NetworkMode === other.NetworkMode && hasSamePorts(one.PortBindings as Ports, other.PortBindings as Ports);
}

/** Returns whether a container's ports are published at these. */
export function isPublishedAt(bindings: Ports, { address, ports }: PublishedPorts): boolean {
  const found = bindingsIn(bindings);
  return found.length > 0 && found.every(({ HostIp, HostPort }) => HostIp === address && HostPort === ports);
}

const textOf = (bindings: Ports): string =>
  bindingsIn(bindings)
    .map(({ port, HostIp, HostPort }) => `${port} ${HostIp} ${HostPort}`)
    .toSorted()
    .join();

function bindingsIn(bindings: Ports): { port: string; HostIp: string; HostPort: string }[] {
  const all = Object.entries((bindings ?? {}) as Record<string, { HostIp?: string; HostPort?: string }[] | null>);
  return all.flatMap(([port, places]) => (places ?? []).map(({ HostIp = '', HostPort = '' }) => ({ port, HostIp, HostPort })));
}
