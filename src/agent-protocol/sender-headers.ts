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

/** Headers that the service or a proxy in front of it answers, those by which a sender could pretend to be somebody else, and its cookies. */
const ofTheService = new Set(['content-length', 'cookie', 'expect', 'forwarded', 'x-real-ip', 'x-service-webhook-token']);

/** Returns the names that a `Connection` header lists. */
export function namesIn(connection: string): Set<string> {
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}

/**
 * Returns the headers of a webhook that its agent gets, with lower-case names: all but those about the connection, cookies and credentials of
 * the service. So an agent can verify whatever its sender signs.
 */
export function senderHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const { connection = '' } = headers;
  const named = namesIn(String(connection));
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    // Programs behind CGI and WSGI can't tell an underscore from a hyphen.
    const key = name.toLowerCase().replaceAll('_', '-');
    if (value === undefined || hopByHop.has(key) || named.has(key) || ofTheService.has(key) || key.startsWith('x-forwarded-')) continue;
    const text = Array.isArray(value) ? value.join(', ') : value;
    if (!holdsCredential(key, text)) kept[name.toLowerCase()] = text;
  }
  return kept;
}

/** Returns the address that a sender called, as it wrote it, without the agent's token. */
export function calledUrl(url: string): string {
  const [address = '', query] = url.split(/\?(.*)/s, 2);
  if (query === undefined) return url;
  const others = query.split('&').filter((part) => decoded(part.split('=', 1)[0] ?? '') !== 'token');
  const rest = others.length === 0 ? address : `${address}?${others.join('&')}`;
  return holdsCredential('', rest) ? address : rest;
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name.replaceAll('+', ' '));
  } catch {
    return name;
  }
}
