import ipaddr from 'ipaddr.js';

import { isOpen, type OpenRange } from '../../../kernel/network/open-ranges.ts';

/** The most lines for one deployment. */
const LINES_MAX = 20;
const DEFAULT_PORTS: Record<string, number> = { 'http:': 80, 'ws:': 80, 'https:': 443, 'wss:': 443 };

/**
 * Returns a line for each variable that holds a private address which the agent may not reach. A line shows only the address and the port
 * of the value.
 */
export function privateVariables(variables: Record<string, string>, open: readonly OpenRange[]): string[] {
  return Object.entries(variables)
    .flatMap(([name, value]) => {
      const place = placeOf(value);
      if (place === null || !isPrivate(place.address) || isOpen(open, place.address, place.port ?? 0)) return [];
      const host = place.address.includes(':') && place.port !== null ? `[${place.address}]` : place.address;
      const entry = place.port === null ? host : `${host}:${place.port}`;
      return [
        `The variable ${name} leads to ${place.address}, a private address, which agents may not reach here. ` +
          `The operator can allow it with MOORING_AGENT_EGRESS_PRIVATE=${entry}.`,
      ];
    })
    .slice(0, LINES_MAX);
}

/** Returns the address in a value that is a URL, `address:port` or an address. Host names are not resolved, because their addresses may change. */
function placeOf(value: string): { address: string; port: number | null } | null {
  const text = value.trim();
  if (text.length > 2_048) return null;
  const bare = text.replace(/^\[|\]$/g, '');
  if (isAddress(bare)) return { address: bare, port: null };
  const url = text.includes('://') ? text : `tcp://${text}`;
  if (!URL.canParse(url)) return null;
  const { hostname, port, protocol } = new URL(url);
  const address = hostname.replace(/^\[|\]$/g, '');
  if (!isAddress(address)) return null;
  return { address, port: port === '' ? (DEFAULT_PORTS[protocol] ?? null) : Number(port) };
}

const isAddress = (text: string): boolean => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text);

/** Loopback addresses are not included, because they belong to the agent itself. */
function isPrivate(address: string): boolean {
  return !['unicast', 'reserved', 'loopback'].includes(ipaddr.process(address).range());
}
