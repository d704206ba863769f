import { isIPv6 } from 'node:net';

import { holdsCredential } from '../../agent-protocol/credentials.ts';
import { hopByHop, namesIn } from '../../agent-protocol/sender-headers.ts';
import { ownRealms } from './realms.ts';

/** The part of a request or a response that its headers are: names and values in turn, as Node has them. */
export type RawHeaders = readonly string[];

/** The caller, as the agent is told of it. */
export interface Caller {
  /** The caller's address. */
  address: string;
  protocol: string;
  /** The host, with the port, by which the caller reached the service. */
  host: string;
  httpVersion: string;
  requestId: string;
}

/** Headers of a request that the service sets itself, or answers itself. A caller could otherwise pretend to be somebody else. */
const ofTheService = new Set([
  'content-length',
  'expect',
  'forwarded',
  'host',
  'via',
  'x-real-ip',
  'x-request-id',
  'x-service-webhook-token',
]);

/** Headers of a response that the service sets itself. */
const ofTheAnswer = new Set(['x-agent-woken', 'x-event-position', 'x-request-id']);

/**
 * Headers by which a program tells the proxy in front of it to send another file or address in place of its response, or to keep it: that proxy
 * serves the service, whose own addresses it would send.
 */
const forTheProxy = /^x-(accel|sendfile|lighttpd|litespeed|reproxy)(-|$)/;

/** Headers that change the caller's dealings with all of an origin, which under a path is that of the service and of all other agents. */
const originWide = new Set([
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

/** A page under a path gets an origin of its own, which can't read what the service's own pages keep, nor register a service worker. */
const SANDBOX = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts';

/** The methods whose requests have no body unless a header says so. */
const withoutBody = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

/** A request as it was received. */
export interface Received {
  method: string;
  raw: RawHeaders;
  /** True if it asks for the WebSocket protocol. */
  isUpgrade: boolean;
  /** The path under which the agent is reached, without a slash at its end; null if it is reached by a host name of its own. */
  prefix: string | null;
}

/** Returns the headers with which the agent gets the request. */
export function headersForAgent({ method, raw, isUpgrade, prefix }: Received, caller: Caller): string[] {
  const named = connectionNames(raw);
  const kept: string[] = [];
  for (const [name, value] of pairs(raw)) {
    // Programs behind CGI and WSGI can't tell an underscore from a hyphen.
    const key = name.toLowerCase().replaceAll('_', '-');
    if (hopByHop.has(key) || named.has(key) || ofTheService.has(key) || key.startsWith('x-forwarded-')) continue;
    if (!holdsCredential(key, value)) kept.push(name, value);
  }
  const { address, protocol, host, httpVersion, requestId } = caller;
  const via = [...valuesOf(raw, 'via').filter((value) => !holdsCredential('via', value)), `${httpVersion} mooring`].join(', ');
  kept.push('Host', host, 'Via', via, 'X-Request-Id', requestId);
  kept.push('X-Forwarded-For', address, 'X-Forwarded-Proto', protocol, 'X-Forwarded-Host', host);
  kept.push('Forwarded', `for=${quoted(isIPv6(address) ? `[${address}]` : address)};host=${quoted(host)};proto=${protocol}`);
  if (prefix !== null) kept.push('X-Forwarded-Prefix', prefix);
  if (isUpgrade) return [...kept, 'Connection', 'Upgrade', 'Upgrade', 'websocket'];
  return [...kept, ...framing(raw, method)];
}

/**
 * Returns the headers with which the caller gets the agent's response, besides those about the connection. `host` is that by which the caller
 * reached the service; see `Received` for `prefix`.
 */
export function headersForCaller(raw: RawHeaders, host: string, prefix: string | null): string[] {
  const named = connectionNames(raw);
  const kept: string[] = [];
  for (const [name, value] of pairs(raw)) {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || ofTheAnswer.has(key) || forTheProxy.test(key.replaceAll('_', '-'))) continue;
    if (prefix !== null && originWide.has(key)) continue;
    if (key === 'set-cookie') kept.push(...cookie(name, value, prefix));
    else if (key === 'www-authenticate' && prefix !== null) kept.push(...challenge(name, value, prefix));
    else if (key === 'location' && prefix !== null) kept.push(name, locationUnder(prefix, value, host));
    else kept.push(name, value);
  }
  if (prefix !== null) kept.push('Content-Security-Policy', SANDBOX);
  return kept;
}

/** Returns the value of the header; undefined if there is none. Several are joined as a list. */
export function headerOf(raw: RawHeaders, name: string): string | undefined {
  const values = valuesOf(raw, name);
  return values.length === 0 ? undefined : values.join(', ');
}

/** The length or the chunks of the body, which Node has checked. */
function framing(raw: RawHeaders, method: string): string[] {
  if (headerOf(raw, 'transfer-encoding') !== undefined) return ['Transfer-Encoding', 'chunked'];
  const [length] = valuesOf(raw, 'content-length');
  if (length !== undefined) return ['Content-Length', length];
  return withoutBody.has(method) ? [] : ['Content-Length', '0'];
}

function challenge(name: string, value: string, prefix: string): string[] {
  const owned = ownRealms(value, prefix);
  return owned === null ? [] : [name, owned];
}

/** Returns the lines of a cookie that goes to no other agent: to this path alone, or to this host alone. */
function cookie(name: string, value: string, prefix: string | null): string[] {
  const [pair = '', ...attributes] = value.split(';');
  const nameOf = (attribute: string) => attribute.split('=', 1)[0]?.trim().toLowerCase();
  const hostOnly = attributes.filter((attribute) => nameOf(attribute) !== 'domain');
  if (prefix === null) return [name, [pair, ...hostOnly].join(';')];
  // A browser takes such a cookie for the whole host or not at all.
  if (/^\s*__host-/i.test(pair)) return [];
  const given =
    hostOnly
      .findLast((attribute) => nameOf(attribute) === 'path')
      ?.replace(/^[^=]*=?/, '')
      .trim() ?? '';
  const path = given.startsWith('/') ? under(prefix, given) : `${prefix}/`;
  return [name, [pair, ...hostOnly.filter((attribute) => nameOf(attribute) !== 'path'), ` Path=${path}`].join(';')];
}

/** Returns an address that stays under the prefix if the agent meant one of its own. */
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

/** Returns the names that the Connection header lists. */
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
