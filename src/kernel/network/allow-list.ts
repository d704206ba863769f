import { domainToASCII } from 'node:url';
import { openRange } from './open-ranges.ts';

/**
 * The names and IPv4 addresses that one agent may reach, as their owner wrote them: `api.example.com`, `*.example.org`, `203.0.113.0/24` or
 * `host.example.com:8443`.
 */
// A type, because an interface is not assignable to the JSON of an event.
export type AllowList = { allow: string[] };

/** The addresses that one agent may reach: everything that the operator allows agents to reach, nothing, or the listed names alone. */
export type AgentEgress = 'internet' | 'none' | AllowList;

export const ALLOWED_NAMES_MAX = 64;
export const ALLOW_LIST_CHARACTERS_MAX = 4_000;

/**
 * Returns the entry in the form in which it is compared: an IPv4 address or range in CIDR notation, or a name (`allowedName`); null if it
 * is neither.
 */
export function allowedEntry(entry: string): string | null {
  const found = openRange(entry);
  if (found === null) return allowedName(entry);
  return found.family === 'ip' ? `${found.range}${found.port === null ? '' : `:${found.port}`}` : null;
}

/** Returns the name in ASCII and lower case, the form in which it is compared; null if it is not a name of at least two labels. */
export function allowedName(entry: string): string | null {
  const [, any = '', name = '', port] = /^(\*\.)?([^\s:/@*?#\\%[\]]+)(?::([1-9]\d{0,4}))?$/.exec(entry) ?? [];
  const host = domainToASCII(name);
  const labels = host.split('.');
  const isName = labels.length > 1 && host.length <= 253 && labels.every((label) => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label));
  // A last label without a letter would turn it into an IPv4 address.
  if (!isName || !/[a-z]/.test(labels.at(-1) ?? '') || Number(port ?? 1) > 65_535) return null;
  return `${any}${host}${port === undefined ? '' : `:${port}`}`;
}

/** Returns what is wrong with a value that should be an allow list, or null. */
export function allowListMessage(value: unknown): string | null {
  const shape = `must be {"allow": [...]} with 1 to ${ALLOWED_NAMES_MAX} entries, ${ALLOW_LIST_CHARACTERS_MAX} characters together`;
  if (typeof value !== 'object' || value === null || Object.keys(value).join() !== 'allow') return shape;
  const { allow } = value as { allow: unknown };
  if (!Array.isArray(allow) || allow.length === 0 || allow.length > ALLOWED_NAMES_MAX) return shape;
  if (!allow.every((entry) => typeof entry === 'string') || allow.join('').length > ALLOW_LIST_CHARACTERS_MAX) return shape;
  const wrong = allow.findIndex((entry) => allowedEntry(entry) === null);
  if (wrong === -1) return null;
  return `must hold names, IPv4 addresses or ranges such as api.example.com, *.example.org, 203.0.113.0/24 or host.example.com:8443, and entry ${wrong + 1} is none`;
}
