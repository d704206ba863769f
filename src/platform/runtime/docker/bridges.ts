import type Dockerode from 'dockerode';
import { RuntimeRefused } from '../runtime.ts';
import { call } from './engine.ts';
import { hasLabels, labels, networkName, type NetworkKind } from './names.ts';

/** The network option that keeps the containers of a network from each other. */
export const ISOLATED = { 'com.docker.network.bridge.enable_icc': 'false' };

/** The bridges of an installation's networks, by their names in the host's kernel. */
export type Bridges = Record<NetworkKind, readonly string[]>;

/** Returns the name that the engine gives to a network's bridge. */
export const bridgeOf = ({ Id }: Dockerode.NetworkInspectInfo): string => `br-${Id.slice(0, 12)}`;

/** Returns the bridges of the existing networks. */
export async function agentBridges(docker: Dockerode, instance: string): Promise<Bridges> {
  const bridges = async (kind: NetworkKind): Promise<string[]> =>
    (await networksNamed(docker, instance, networkName(instance, kind))).map(bridgeOf);
  return { open: await bridges('open'), closed: await bridges('closed') };
}

/**
 * Returns the networks of this name, the oldest first. Throws `RuntimeRefused` if one of them is foreign, or lets agents reach each other.
 */
export async function networksNamed(docker: Dockerode, instance: string, name: string): Promise<Dockerode.NetworkInspectInfo[]> {
  const filters = JSON.stringify({ name: [name] });
  const listed = await call(null, (abortSignal) => docker.listNetworks({ filters, abortSignal }));
  const found = listed.filter(({ Name }) => Name === name);
  if (!found.every(({ Labels }) => hasLabels(Labels, { [labels.instance]: instance })))
    throw new RuntimeRefused(`A network named ${name} exists that this installation did not make.`);
  if (!found.every(({ Options }) => hasLabels(Options, ISOLATED)))
    throw new RuntimeRefused(`The network ${name} lets agents reach each other: remove it.`);
  return found.toSorted((a, b) => (a.Created + a.Id < b.Created + b.Id ? -1 : 1));
}
