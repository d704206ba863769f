import { holdsCredential } from './credentials.ts';

/** Headers that are about one connection (RFC 9110, 7.6.1), and those about the framing of a body, which is made anew. */
export const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers that the service or a proxy in front of it handles, and those by which a caller could pretend to be somebody else. */
const ofTheService = new Set(['content-length', 'expect', 'forwarded', 'x-real-ip', 'x-service-webhook-token']);

/** Returns the names that a `Connection` header lists. */
export function namesIn(connection: string): Set<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}

/** Returns the name by which headers are compared: programs behind CGI and WSGI can't distinguish an underscore from a hyphen. */
export function headerKey(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

/**
 * Returns whether a header of a caller may reach an agent: it is not about the connection, of whose own header `named` are the names, forges
 * nothing and holds no credential of the service.
 */
export function mayReachAgent(name: string, value: string, named: ReadonlySet<string>): boolean {
  const key = headerKey(name);
  if (hopByHop.has(key) || named.has(key) || ofTheService.has(key) || key.startsWith('x-forwarded-')) return false;
  return !holdsCredential(key, value);
}

/**
 * Returns the headers of a webhook that its agent gets, with lower-case names: all that may reach an agent, but cookies. So an agent can verify
 * whatever its sender signs.
 */
export function senderHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const named = namesIn(String(headers.connection ?? ''));
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || headerKey(name) === 'cookie') continue;
    const text = Array.isArray(value) ? value.join(', ') : value;
    if (mayReachAgent(name, text, named)) kept[name.toLowerCase()] = text;
  }
  return kept;
}

/** Returns the address that a sender called, as it wrote it, without the agent's token. */
export function calledUrl(url: string): string {
  const [address = '', query] = url.split(/\?(.*)/s, 2);
  if (query === undefined) return url;
  const others = query.split('&').filter((part) => !new URLSearchParams(`&${part}`).has('token'));
  const rest = others.length === 0 ? address : `${address}?${others.join('&')}`;
  return holdsCredential('', rest) ? address : rest;
}
