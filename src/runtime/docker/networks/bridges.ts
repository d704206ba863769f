import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../../runtime.errors.ts';
import { call } from '../engine/engine.ts';
import { hasLabels, isInternal, isListedKind, isShut, labels, networkName, type Labels, type NetworkKind } from '../engine/names.ts';
import { proxyAddress } from './listed-addresses.ts';
import { bridgeOf, linksOf, subnetOf, type Link } from './links.ts';

/**
 * Returns the network's options. On the open and the closed networks the engine isolates containers from each other. Containers on the
 * listed networks have to reach the proxy, so the packet rules isolate them. Packets that leave a network which only the rules close keep
 * their private source address, so that hardly any would get a response if the rules were missing.
 */
export const networkOptions = (kind: NetworkKind): Labels => ({
  'com.docker.network.bridge.enable_icc': String(isListedKind(kind)),
  ...(isShut(kind) && !isInternal(kind) ? { 'com.docker.network.bridge.enable_ip_masquerade': 'false' } : {}),
});

/** The bridges of an installation's networks, by their names in the host's kernel. */
export interface Bridges {
  open: readonly string[];
  /** The bridges of agents without a way out. */
  closed: readonly string[];
  /** The bridges of builds, which may reach the mirrors too. */
  builds: readonly string[];
  /** The bridges of listed networks, each with the address of the proxy on it. */
  listed: readonly { bridge: string; proxy: string }[];
  /** The links of all of them. */
  links: readonly Link[];
}

/** Returns the bridges of the existing networks. */
export async function agentBridges(docker: Dockerode, instance: string): Promise<Bridges> {
  const networks = (kind: NetworkKind) => networksOf(docker, instance, kind);
  const [open, closed, builds, listed] = [
    await networks('open'),
    [...(await networks('closed')), ...(await networks('published-closed'))],
    [...(await networks('builds')), ...(await networksOfBuilds(docker, instance))],
    [...(await networks('listed')), ...(await networks('published-listed'))],
  ];
  return {
    open: open.map(bridgeOf),
    closed: closed.map(bridgeOf),
    builds: builds.map(bridgeOf),
    listed: listed.map((network) => ({ bridge: bridgeOf(network), proxy: proxyAddress(subnetOf(network)) })),
    links: [...linksOf([...open, ...closed, ...builds], false), ...linksOf(listed, true)],
  };
}

/**
 * Returns the networks of this kind, the oldest first. Throws `RuntimeRefused` if one of them is foreign, or lets agents reach each other.
 */
export async function networksOf(docker: Dockerode, instance: string, kind: NetworkKind): Promise<Dockerode.NetworkInspectInfo[]> {
  const name = networkName(instance, kind);
  const filters = JSON.stringify({ name: [name] });
  const listed = await call(null, (abortSignal) => docker.listNetworks({ filters, abortSignal }));
  const found = listed.filter(({ Name }) => Name === name);
  if (!found.every(({ Labels }) => hasLabels(Labels, { [labels.instance]: instance })))
    throw new RuntimeRefused(`A network named ${name} exists that this installation did not make.`);
  if (!found.every(({ Options }) => hasLabels(Options, networkOptions(kind))))
    throw new RuntimeRefused(`The network ${name} lets agents reach each other: remove it.`);
  return found.toSorted((a, b) => (a.Created + a.Id < b.Created + b.Id ? -1 : 1));
}

/** Returns the networks of single builds of the engine's own builder. */
export async function networksOfBuilds(docker: Dockerode, instance: string): Promise<Dockerode.NetworkInspectInfo[]> {
  const filters = JSON.stringify({ label: [`${labels.instance}=${instance}`, labels.build] });
  return call(null, (abortSignal) => docker.listNetworks({ filters, abortSignal }));
}
