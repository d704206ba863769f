import ipaddr from 'ipaddr.js';

/** A range of private addresses that the operator opens to agents. */
export interface OpenRange {
  family: 'ip' | 'ip6';
  /** The range is written in CIDR notation. */
  range: string;
  /** The value is null if all ports are open. */
  port: number | null;
}

/** Parses `address` or `address/bits`, optionally followed by `:port`; an IPv6 address with a port is written in brackets. Returns null if the text is malformed. */
export function openRange(text: string): OpenRange | null {
  const match = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(text) ?? /^([^:]+)(?::(\d{1,5}))?$/.exec(text) ?? /^(.+)$/.exec(text);
  const [, written = '', portText] = match ?? [];
  const port = portText === undefined ? null : Number(portText);
  if (port !== null && (port < 1 || port > 65_535)) return null;
  const isRange = written.includes('/');
  if (isRange ? !ipaddr.isValidCIDR(written) : !ipaddr.isValid(written)) return null;
  const [address, bits] = isRange ? ipaddr.parseCIDR(written) : [ipaddr.parse(written), null];
  const isV4 = address.kind() === 'ipv4';
  if (isV4 && !ipaddr.IPv4.isValidFourPartDecimal(written.split('/')[0] ?? '')) return null;
  if (written.includes('%')) return null;
  return { family: isV4 ? 'ip' : 'ip6', range: `${address.toString()}/${bits ?? (isV4 ? 32 : 128)}`, port };
}

/** Returns whether one of the open ranges contains the address and the port. */
export function isOpen(open: readonly OpenRange[], address: string, port: number): boolean {
  const parsed = ipaddr.process(address);
  return open.some((each) => {
    const [network, bits] = ipaddr.parseCIDR(each.range);
    return network.kind() === parsed.kind() && parsed.match(network, bits) && (each.port === null || each.port === port);
  });
}
