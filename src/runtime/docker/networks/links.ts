import { createSocket } from 'node:dgram';
import { readFile } from 'node:fs/promises';
import type Dockerode from 'dockerode';
import { broadcastAddress, gatewayAddress, proxyAddress } from './listed-addresses.ts';

/** The link that the containers of one network share. */
export interface Link {
  /** The name of the network's bridge in the host's kernel. */
  bridge: string;
  /** The network's range of IPv4 addresses, in CIDR notation. */
  subnet: string;
  /** The host's address on the link. */
  gateway: string;
  /** The address of the proxy, the only container that others may reach; null where there is none. */
  proxy: string | null;
}

/** The port of the discard service (RFC 863), on which no program listens. */
export const DISCARD_PORT = 9;

/** Returns the name that the engine gives to a network's bridge. */
export const bridgeOf = ({ Id }: Dockerode.NetworkInspectInfo): string => `br-${Id.slice(0, 12)}`;

/**
 * Returns whether this process is in the network namespace of the engine's host, so that the addresses on the bridge are reachable. The
 * bridge's name is derived from the network's id, which is unique among engines. Its address would prove less: engines choose the same
 * addresses, and Node lists no address of a bridge without running containers.
 */
export async function isBridgeHere(bridge: string): Promise<boolean> {
  // The folder /sys/class/net may belong to another network namespace than the process. Systems other than Linux have no such file.
  const devices = await readFile('/proc/self/net/dev', 'utf8').catch(() => '');
  return devices.split('\n').some((line) => line.trimStart().startsWith(`${bridge}:`));
}

/** Returns the network's range of addresses, in CIDR notation. */
export const subnetOf = ({ IPAM }: Dockerode.NetworkInspectInfo): string =>
  (IPAM?.Config ?? []).find(({ Subnet = '' }) => !Subnet.includes(':'))?.Subnet ?? '';

/** Returns the link of each network whose range is known. */
export function linksOf(networks: readonly Dockerode.NetworkInspectInfo[], haveProxy: boolean): Link[] {
  return networks
    .filter((network) => subnetOf(network) !== '')
    .map((network) => {
      const subnet = subnetOf(network);
      const gateway = network.IPAM?.Config?.find(({ Subnet }) => Subnet === subnet)?.Gateway?.split('/', 1)[0];
      return {
        bridge: bridgeOf(network),
        subnet,
        gateway: gateway ?? gatewayAddress(subnet),
        proxy: haveProxy ? proxyAddress(subnet) : null,
      };
    });
}

/** Returns the MAC address that a container with this address has: engines before 28 assign it by default. */
export const macOf = (address: string): string =>
  ['02', '42', ...address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'))].join(':');

/**
 * Sends one datagram to all ports of the links, from which the rules learn the ports. Without the gateways, which only the engine's host
 * has, nothing is sent.
 */
export async function reachPorts(links: readonly Link[]): Promise<void> {
  await Promise.all(links.map(({ gateway, subnet }) => broadcastFrom(gateway, broadcastAddress(subnet))));
}

async function broadcastFrom(source: string, address: string): Promise<void> {
  const socket = createSocket('udp4');
  // A bridge without running containers has no carrier, so nothing can be sent, and no port is missed.
  await new Promise<void>((resolve) => {
    socket.on('error', () => resolve());
    socket.bind(0, source, () => {
      socket.setBroadcast(true);
      socket.send('', DISCARD_PORT, address, () => resolve());
    });
  });
  socket.close();
}
