import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';

import ipaddr from 'ipaddr.js';

/** The time for one request to a name server, in ms, and the number of requests. */
const RESOLVE_TIMEOUT_MS = 2_000;
const RESOLVE_TRIES = 2;

/** Returns the addresses of a host. */
export type ResolveHost = (host: string) => Promise<string[]>;

/** A host has a private address, so no connection was opened. */
export class PrivateAddress extends Error {}

/** Azure's address for its virtual machines. Only they can reach it, although it lies in a public range. */
const AZURE_PLATFORM = '168.63.129.16';
const globalUnicast6 = ipaddr.IPv6.parseCIDR('2000::/3');

/**
 * Returns whether the address may belong to anybody on the internet. For IPv6 that is only 2000::/3, without the reserved ranges in it (RFC
 * 4291, 2.4).
 */
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
 * Returns the addresses of the host. It queries the name servers directly, since the system's resolver blocks one of the process's few
 * threads for as long as a name server does not respond.
 */
export async function addressesOf(host: string): Promise<string[]> {
  if (isIP(host) !== 0) return [host];
  const resolver = new Resolver({ timeout: RESOLVE_TIMEOUT_MS, tries: RESOLVE_TRIES });
  const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  return found.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
}

/**
 * Returns a function that resolves a host for a connection. It fails with `PrivateAddress` if any of the addresses is private. The address
 * that was checked is the one that is used. Node does not call it for a host that is an address.
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
