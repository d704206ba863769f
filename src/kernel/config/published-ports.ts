import ipaddr from 'ipaddr.js';

import { openRange } from '../network/open-ranges.ts';

/** The settings of the ports that are published for agents. */
interface PortSettings {
  agentBindAddress: string | null;
  agentPorts: string;
  agentClients: readonly string[];
}

const PORTS_MIN = 1_024;
const PORTS_MAX = 65_535;

/** Returns whether only programs on the engine's machine can reach ports at the address. */
export const isLoopbackAddress = (address: string): boolean => address.startsWith('127.');

/** Adds the faults of the settings. */
export function checkPublishedPorts({ agentBindAddress, agentPorts, agentClients }: PortSettings, found: string[]): void {
  const [, first, last] = /^(\d{4,5})-(\d{4,5})$/.exec(agentPorts) ?? [];
  if (!(Number(first) >= PORTS_MIN && Number(last) >= Number(first) && Number(last) <= PORTS_MAX))
    found.push(`MOORING_AGENT_PORTS must be a range of ports from ${PORTS_MIN} on such as 20000-29999`);
  if (agentBindAddress === null) return;
  if (!isOneAddress(agentBindAddress))
    found.push('MOORING_AGENT_BIND_ADDRESS must be one IPv4 address of the engine’s machine, not all of them');
  else if (agentClients.length === 0 && !isLoopbackAddress(agentBindAddress))
    found.push('MOORING_AGENT_CLIENTS must name the addresses of the service, which alone reach the ports at MOORING_AGENT_BIND_ADDRESS');
}

function isOneAddress(text: string): boolean {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return false;
  return !['unspecified', 'broadcast', 'multicast'].includes(ipaddr.IPv4.parse(text).range());
}

/** Returns the address, or the range in CIDR notation; null if the text is neither in IPv4, or includes every address. */
export function clientRange(text: string): string | null {
  const range = openRange(text);
  if (range?.family !== 'ip' || range.port !== null || range.range.endsWith('/0')) return null;
  return range.range.replace(/\/32$/, '');
}
