import { randomInt } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import { RuntimeRefused } from '../../runtime.errors.ts';

/** The port on which the proxy listens. */
export const PROXY_PORT = 3128;
/** The position of the proxy's address in its network; the engine assigns the first one to the bridge. */
const PROXY_AT = 2;

/** Returns the address that the engine gives to the bridge of a network. */
export const gatewayAddress = (subnet: string): string => addressAt(rangeOf(subnet).first + 1);

/** Returns the broadcast address of a network. */
export const broadcastAddress = (subnet: string): string => addressAt(rangeOf(subnet).first + rangeOf(subnet).count - 1);

/** Returns the proxy's address in a network. */
export const proxyAddress = (subnet: string): string => addressAt(rangeOf(subnet).first + PROXY_AT);

/**
 * Returns an address for one more agent. It is random, so that two replicas that choose at the same time rarely collide. Throws
 * `RuntimeRefused` if all addresses are in use.
 */
export function freeAddress(subnet: string, taken: ReadonlySet<string>): string {
  const { first, count } = rangeOf(subnet);
  // The last address is the broadcast address.
  const places = count - PROXY_AT - 2;
  const from = places > 0 ? randomInt(places) : 0;
  for (let step = 0; step < places; step += 1) {
    const address = addressAt(first + PROXY_AT + 1 + ((from + step) % places));
    if (!taken.has(address)) return address;
  }
  throw new RuntimeRefused('The network of agents with a list of names has no free address: give the engine larger address pools.');
}

/** Returns the first subrange of a range with this prefix length; the range itself if it is not larger. */
export function beginningOf(subnet: string, bits: number): string {
  return isLarger(subnet, bits) ? `${addressAt(rangeOf(subnet).first)}/${bits}` : subnet;
}

/** Returns whether a range is larger than one with a prefix of this length. */
export const isLarger = (subnet: string, bits: number): boolean => rangeOf(subnet).count > 2 ** (32 - bits);

function rangeOf(subnet: string): { first: number; count: number } {
  const [network, bits] = ipaddr.IPv4.parseCIDR(subnet);
  const count = 2 ** (32 - bits);
  const number = network.octets.reduce((sum, octet) => sum * 256 + octet, 0);
  return { first: number - (number % count), count };
}

const addressAt = (number: number): string => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.');
