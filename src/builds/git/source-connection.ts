import { request as httpRequest, type ClientRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';

import { hostOf, isPublic, PrivateAddress, publicLookup, type ResolveHost } from '../../kernel/network/public-addresses.ts';

/** The addresses that a request may go to. */
export interface Reach {
  /** True if the operator allows the host, so that its address may be private. */
  isAllowed: boolean;
  resolve?: ResolveHost | undefined;
}

/** Sends a request to the server of a source, over a connection of its own. Throws `PrivateAddress` for such an address. */
export function sendRequest(url: URL, { isAllowed, resolve }: Reach, options: RequestOptions): ClientRequest {
  const host = hostOf(url);
  if (!isAllowed && isIP(host) !== 0 && !isPublic(host)) throw new PrivateAddress();
  const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
  return send(url, { ...options, agent: false, ...(isAllowed ? {} : { lookup: publicLookup(resolve) }) });
}

/** Returns the headers that show the credential; none without one. */
export function credentialHeaders(credential: { username: string; password: string } | null): Record<string, string> {
  if (credential === null) return {};
  return { authorization: `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString('base64')}` };
}
