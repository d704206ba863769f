import { isIPv6 } from 'node:net';

import { holdsCredential } from '../../agent-protocol/credentials.ts';
import { headerKey, hopByHop, mayReachAgent, namesIn } from '../../agent-protocol/sender-headers.ts';
import { ownRealms } from './realms.ts';

/** The headers of a request or a response as Node returns them: alternating names and values. */
export type RawHeaders = readonly string[];

/** The data about the caller that the agent gets. */
export interface Caller {
  /** The caller's address. */
  address: string;
  protocol: string;
  /** The host, with the port, by which the caller reached the service. */
  host: string;
  httpVersion: string;
  requestId: string;
}

/** Request headers of which the agent gets the service's own. */
const serviceRequestHeaders = new Set(['host', 'via', 'x-request-id']);

/** Response headers that the service sets itself. */
const serviceResponseHeaders = new Set(['x-agent-woken', 'x-event-position', 'x-request-id']);

/**
 * Headers with which a program makes the proxy in front of it send another file or address instead of the response, or cache it. That proxy
 * belongs to the service, and would send the service's own addresses.
 */
const proxyControlHeaders = /^x-(accel|sendfile|lighttpd|litespeed|reproxy)(-|$)/;

/** Headers that affect a whole origin. Under a path, the origin is shared by the service and all other agents. */
const originWideHeaders = new Set([
  'accept-ch',
  'alt-svc',
  'clear-site-data',
  'critical-ch',
  'expect-ct',
  'nel',
  'origin-agent-cluster',
  'public-key-pins',
  'public-key-pins-report-only',
  'report-to',
  'reporting-endpoints',
  'secure-session-challenge',
  'secure-session-registration',
  'service-worker-allowed',
  'set-login',
  'speculation-rules',
  'strict-transport-security',
  'use-as-dictionary',
]);

/** Gives a page under a path an opaque origin, which can't read the storage of the service's pages or register a service worker. */
const SANDBOX = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts';

/** The methods whose requests have no body unless a header declares one. */
const bodylessMethods = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

/** A received request. */
export interface ReceivedRequest {
  method: string;
  raw: RawHeaders;
  /** The value is true if it requests the WebSocket protocol. */
  isUpgrade: boolean;
  /** The path under which the agent is reached, without a trailing slash; null if it is reached under a host name of its own. */
  prefix: string | null;
  /** The length of the body in bytes, if it was read whole. Such a request is passed on without its cookies. */
  wholeBytes?: number;
}

/** Returns the headers of the request to the agent. */
export function headersForAgent({ method, raw, isUpgrade, prefix, wholeBytes }: ReceivedRequest, caller: Caller): string[] {
  const named = connectionNames(raw);
  const kept: string[] = [];
  for (const [name, value] of pairs(raw)) {
    if (wholeBytes !== undefined && headerKey(name) === 'cookie') continue;
    if (!serviceRequestHeaders.has(headerKey(name)) && mayReachAgent(name, value, named)) kept.push(name, value);
  }
  const { address, protocol, host, httpVersion, requestId } = caller;
  const via = [...valuesOf(raw, 'via').filter((value) => !holdsCredential('via', value)), `${httpVersion} mooring`].join(', ');
  kept.push('Host', host, 'Via', via, 'X-Request-Id', requestId);
  kept.push('X-Forwarded-For', address, 'X-Forwarded-Proto', protocol, 'X-Forwarded-Host', host);
  kept.push('Forwarded', `for=${quoted(isIPv6(address) ? `[${address}]` : address)};host=${quoted(host)};proto=${protocol}`);
  if (prefix !== null) kept.push('X-Forwarded-Prefix', prefix);
  if (isUpgrade) return [...kept, 'Connection', 'Upgrade', 'Upgrade', 'websocket'];
  return [...kept, ...(wholeBytes === undefined ? framing(raw, method) : wholeFraming(wholeBytes, method))];
}

/**
 * Returns the headers of the response to the caller, except those about the connection. `host` is the one at which the caller reached the
 * service; see `Received` for `prefix`.
 */
export function headersForCaller(raw: RawHeaders, host: string, prefix: string | null): string[] {
  const named = connectionNames(raw);
  const kept: string[] = [];
  for (const [name, value] of pairs(raw)) {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || serviceResponseHeaders.has(key) || proxyControlHeaders.test(key.replaceAll('_', '-')))
      continue;
    if (prefix !== null && originWideHeaders.has(key)) continue;
    if (key === 'set-cookie') kept.push(...cookie(name, value, prefix));
    else if (key === 'www-authenticate' && prefix !== null) kept.push(...challenge(name, value, prefix));
    else if (key === 'location' && prefix !== null) kept.push(name, locationUnder(prefix, value, host));
    else kept.push(name, value);
  }
  if (prefix !== null) kept.push('Content-Security-Policy', SANDBOX);
  return kept;
}

/**
 * Returns those headers of a response that are passed on with a whole body: no cookies, and no length, unless the response has no body of which it
 * could be the length.
 */
export function headersOfWhole(headers: RawHeaders, isBodyless: boolean): string[] {
  const kept = [...pairs(headers)].filter(([name]) => {
    const key = name.toLowerCase();
    return key !== 'set-cookie' && (key !== 'content-length' || isBodyless);
  });
  return kept.flat();
}

/** Returns the value of the header; undefined if there is none. Several values are joined as a list. */
export function headerOf(raw: RawHeaders, name: string): string | undefined {
  const values = valuesOf(raw, name);
  return values.length === 0 ? undefined : values.join(', ');
}

/** Returns the header with the length or the chunking of the body, which Node has checked. */
function framing(raw: RawHeaders, method: string): string[] {
  if (headerOf(raw, 'transfer-encoding') !== undefined) return ['Transfer-Encoding', 'chunked'];
  const [length] = valuesOf(raw, 'content-length');
  if (length !== undefined) return ['Content-Length', length];
  return bodylessMethods.has(method) ? [] : ['Content-Length', '0'];
}

function wholeFraming(bytes: number, method: string): string[] {
  return bytes === 0 && bodylessMethods.has(method) ? [] : ['Content-Length', String(bytes)];
}

function challenge(name: string, value: string, prefix: string): string[] {
  const owned = ownRealms(value, prefix);
  return owned === null ? [] : [name, owned];
}

/** Returns the header of a cookie that no other agent gets: limited to this path, or to this host. */
function cookie(name: string, value: string, prefix: string | null): string[] {
  const [pair = '', ...attributes] = value.split(';');
  const nameOf = (attribute: string) => attribute.split('=', 1)[0]?.trim().toLowerCase();
  const hostOnly = attributes.filter((attribute) => nameOf(attribute) !== 'domain');
  if (prefix === null) return [name, [pair, ...hostOnly].join(';')];
  // A browser accepts such a cookie for the whole host or not at all.
  if (/^\s*__host-/i.test(pair)) return [];
  const given =
    hostOnly
      .findLast((attribute) => nameOf(attribute) === 'path')
      ?.replace(/^[^=]*=?/, '')
      .trim() ?? '';
  const path = given.startsWith('/') ? under(prefix, given) : `${prefix}/`;
  return [name, [pair, ...hostOnly.filter((attribute) => nameOf(attribute) !== 'path'), ` Path=${path}`].join(';')];
}

/** Returns the address under the prefix if it is one of the agent's own. */
function locationUnder(prefix: string, value: string, host: string): string {
  if (value.startsWith('/') && !value.startsWith('//')) return under(prefix, value);
  const [origin = '', itsHost] = /^https?:\/\/([^/?#]*)/i.exec(value) ?? [];
  if (itsHost === undefined || itsHost.toLowerCase() !== host.toLowerCase()) return value;
  const path = value.slice(origin.length);
  return origin + under(prefix, path.startsWith('/') ? path : `/${path}`);
}

function under(prefix: string, path: string): string {
  return path === prefix || path.startsWith(`${prefix}/`) ? path : prefix + path;
}

/** Returns the names in the Connection header. */
function connectionNames(raw: RawHeaders): Set<string> {
  return namesIn(valuesOf(raw, 'connection').join(','));
}

function valuesOf(raw: RawHeaders, wanted: string): string[] {
  return [...pairs(raw)].filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);
}

function* pairs(raw: RawHeaders): Generator<[name: string, value: string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) yield [raw[at] as string, raw[at + 1] as string];
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}
