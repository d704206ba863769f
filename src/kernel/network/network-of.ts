import ipaddr from 'ipaddr.js';

/** The length of an IPv6 network prefix in bits: the owner of one address has all addresses of its network. */
export const NETWORK_BITS = 64;

/** Returns the key under which an address is counted: its network of that length for IPv6. */
export function networkOf(address: string, bits: number): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return ipaddr.IPv6.networkAddressFromCIDR(`${parsed.toString()}/${bits}`).toString();
}
