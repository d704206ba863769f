import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';

import { Injectable } from '@nestjs/common';

import { onTooManyInformational } from '../../../agent-protocol/informational-responses.ts';
import { Config } from '../../../kernel/config/config.ts';
import { addressesOf, hostOf, isPublic, PrivateAddress, publicLookup } from '../../../kernel/network/public-addresses.ts';

const URL_CHARACTERS_MAX = 2_000;

export interface PostResult {
  /** The status of the response; null if there was none. */
  status: number | null;
  /** The reason of the failure, without any address; null if it succeeded. */
  failure: string | null;
}

/** Sends requests to the addresses of accounts. It connects to private addresses only for hosts that the operator allows. */
@Injectable()
export class Targets {
  private readonly allowed: ReadonlySet<string>;

  constructor(config: Config) {
    this.allowed = new Set(config.allowPrivateTargets.map((entry) => entry.toLowerCase()));
  }

  /** Returns what is wrong with the address, or null. A name that is not resolved in time is accepted, and checked at each delivery. */
  async problemOf(text: string): Promise<string | null> {
    if (text.length > URL_CHARACTERS_MAX || !URL.canParse(text)) return `must be an address of at most ${URL_CHARACTERS_MAX} characters`;
    // The URL parser silently removes some of these characters.
    if (/[\p{Cc} ]/u.test(text)) return 'must not contain spaces or control characters';
    const url = new URL(text);
    if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password';
    if (this.isAllowed(url)) return ['http:', 'https:'].includes(url.protocol) ? null : 'must begin with https:// or http://';
    if (url.protocol !== 'https:') return 'must begin with https://';
    const host = hostOf(url);
    const found = isThisMachine(host) ? ['127.0.0.1'] : await addressesOf(host).catch(() => []);
    return found.every(isPublic)
      ? null
      : 'must not lead to a private address; the operator can allow it with MOORING_ALLOW_PRIVATE_TARGETS';
  }

  /** Posts the body, without following redirects. It never throws: every error is a failure of the target. */
  async post(address: string, headers: Record<string, string>, body: Buffer, signal: AbortSignal): Promise<PostResult> {
    try {
      const status = await this.statusOf(new URL(address), headers, body, signal);
      return { status, failure: status >= 200 && status < 300 ? null : `the target answered ${status}` };
    } catch (error) {
      return { status: null, failure: failureOf(error) };
    }
  }

  private statusOf(url: URL, headers: Record<string, string>, body: Buffer, signal: AbortSignal): Promise<number> {
    const open = this.isAllowed(url);
    if (!open && isIP(hostOf(url)) !== 0 && !isPublic(hostOf(url))) return Promise.reject(new PrivateAddress());
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
      const call = send(
        url,
        {
          method: 'POST',
          agent: false,
          headers: { ...headers, 'content-length': body.length },
          signal,
          ...(open ? {} : { lookup: publicLookup() }),
        },
        (response) => {
          resolve(response.statusCode ?? 0);
          // The body of the response is not used, and may be endless.
          response.destroy();
        },
      );
      onTooManyInformational(call, () => call.destroy(new EndlessResponse()));
      call.once('error', reject);
      // If a target switches to another protocol, the connection is closed without an error event.
      call.once('close', () => reject(new Error('the connection closed before an answer')));
      call.end(body);
    });
  }

  private isAllowed(url: URL): boolean {
    const port = url.port === '' ? (url.protocol === 'http:' ? '80' : '443') : url.port;
    const host = url.hostname.toLowerCase();
    return this.allowed.has(hostOf(url)) || this.allowed.has(host) || this.allowed.has(`${host}:${port}`);
  }
}

class EndlessResponse extends Error {}

function failureOf(error: unknown): string {
  if (error instanceof PrivateAddress) return 'the target has a private address';
  if (error instanceof EndlessResponse) return 'the target did not come to an answer';
  const { name, code } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || name === 'AbortError') return 'the target did not answer in time';
  return `the target could not be reached${code === undefined ? '' : ` (${code})`}`;
}

/** Returns whether the name means this machine by convention (RFC 6761), without a DNS lookup. */
function isThisMachine(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost');
}
