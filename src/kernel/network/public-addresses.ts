import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';

import ipaddr from 'ipaddr.js';

/** The time for one question to a name server, and the questions asked, ms. */
const RESOLVE_TIMEOUT_MS = 2_000;
const RESOLVE_TRIES = 2;

/** Returns the addresses of a host. */
export type ResolveHost = (host: string) => Promise<string[]>;

/** A host has a private address, so that no connection was made. */
export class PrivateAddress extends Error {}

/** Azure's address for its virtual machines, which answers them alone though it lies in a public range. */
const AZURE_PLATFORM = '168.63.129.16';
const globalUnicast6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** Returns whether anybody on the internet may own the address. Of IPv6 that is 2000::/3 alone, less what is reserved in it (RFC 4291, 2.4). */
export function isPublic(address: string): boolean {
  // The spelling ::8.8.8.8 is an IPv6 address that the library takes for an IPv4 one.
  const [bare = ''] = address.split('%', 1);
  const parsed = ipaddr.process(isIP(address) === 6 ? hostOf(new URL(`http://[${bare}]`)) : address);
  if (parsed.range() !== 'unicast' || parsed.toString() === AZURE_PLATFORM) return false;
  return parsed instanceof ipaddr.IPv4 || parsed.match(globalUnicast6);
}

/** Returns the URL's host in lower case, without the brackets of an IPv6 address. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').toLowerCase();
}

/**
 * Returns the addresses of the host. It asks the name servers itself, since the system's resolver holds one of the process's few threads for
 * as long as a name server does not answer.
 */
export async function addressesOf(host: string): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const resolver = new Resolver({ timeout: RESOLVE_TIMEOUT_MS, tries: RESOLVE_TRIES });
  const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
}

/**
 * Returns the function that resolves a host for a connection. It fails with `PrivateAddress` if any of the addresses is private: the address
 * that is checked is the one that is used. Node does not call it for a host that is an address.
 */
export function publicLookup(resolve: ResolveHost = addressesOf): LookupFunction {
  return (host, { all }, callback) => {
    resolve(host).then(
      (addresses) => {
        const [first] = addresses;
        if (first === undefined) return callback(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }), '');
        if (!addresses.every(isPublic)) return callback(new PrivateAddress(), '');
        if (all === true)
          return callback(
            null,
            addresses.map((address) => ({ address, family: isIP(address) })),
          );
        callback(null, first, isIP(first));
      },
      (error: Error) => callback(error, ''),
    );
  };
}
