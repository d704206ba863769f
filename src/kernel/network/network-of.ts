import ipaddr from 'ipaddr.js';

/** The length of an IPv6 network prefix in bits: whoever has one address of a network has all of them. */
export const NETWORK_BITS = 64;

/** Returns the key under which an address is counted. For IPv6 that is its network of that length. */
export function networkOf(address: string, bits: number): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/${bits}`).toString();
}
