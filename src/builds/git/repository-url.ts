import { hostOf } from '../../kernel/network/public-addresses.ts';
import { withoutLast } from '../../kernel/text/without-last.ts';

const URL_CHARACTERS_MAX = 2_048;
const BRANCH_CHARACTERS_MAX = 200;

/** The address of a repository, taken apart. */
export interface RepositoryUrl {
  protocol: 'https' | 'http' | 'file';
  /** The host in lower case, without the brackets of an IPv6 address; empty for a local path. */
  host: string;
  /** The host with its port if the address names one, as credentials and the operator's settings name it. */
  authority: string;
  port: number;
  /** The address in one spelling, without a slash at its end. */
  href: string;
}

/** Returns what is wrong with the address of a repository, or null. The operator's settings may refuse more. */
export function repositoryUrlProblem(text: string): string | null {
  if (text.length > URL_CHARACTERS_MAX) return `must have at most ${URL_CHARACTERS_MAX} characters`;
  if (!/^(https?|file):\/\//i.test(text) || /[\s\\\p{C}]/u.test(text) || !URL.canParse(text))
    return 'must be an address that begins with https://, without spaces, control characters and backslashes';
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || text.slice(0, text.indexOf('/', 8)).includes('@'))
    return 'must not hold a user name or a password; store them as a source credential of the account';
  if (/[?#]/.test(text)) return 'must have no query and no fragment';
  if (/%(00|0a|0d|2f|5c)/i.test(text)) return 'must not hold encoded control characters or slashes';
  if (/\/(\.|%2e){1,2}(\/|$)/i.test(text)) return 'must not hold the path segments . and ..';
  const isFile = url.protocol === 'file:';
  if (isFile !== (url.host === '')) return isFile ? 'must be a local path without a host' : 'must name a host';
  return /[^/]/.test(url.pathname) ? null : 'must name a repository, as https://git.example.com/team/project.git';
}

/**
 * Returns what is wrong with the name of a branch or tag, or the hash of a commit, or null. The rules are Git's own (git check-ref-format) for what
 * is valid as a branch.
 */
export function branchProblem(branch: string): string | null {
  const hasForm = branch !== '' && branch.length <= BRANCH_CHARACTERS_MAX && !/[\p{Cc}\p{Cs} ~^:?*[\\]/u.test(branch);
  const isRef = !/^[-/]|\.\.|\/\/|\/$|\.$|@\{|(^|\/)\.|\.lock(\/|$)|^@$|^HEAD$/.test(branch);
  return hasForm && isRef ? null : 'must be the name of a branch or tag, or the hash of a commit';
}

/** Takes an address apart that `repositoryUrlProblem` has accepted. */
export function parseRepositoryUrl(text: string): RepositoryUrl {
  const url = new URL(text);
  const protocol = url.protocol.slice(0, -1) as RepositoryUrl['protocol'];
  const port = url.port === '' ? (protocol === 'http' ? 80 : 443) : Number(url.port);
  return { protocol, host: hostOf(url), authority: url.host.toLowerCase(), port, href: withoutLast('/', url.href) };
}

/**
 * Returns whether the operator allows the address by name (`MOORING_ALLOW_PRIVATE_SOURCES`), in lower case: its host may then be private and
 * needs no TLS. `file:` allows local paths.
 */
export function isAllowedSource({ protocol, host, authority, port }: RepositoryUrl, allowed: ReadonlySet<string>): boolean {
  if (protocol === 'file') return allowed.has('file:');
  const named = host.includes(':') ? `[${host}]` : host;
  return allowed.has(host) || allowed.has(named) || allowed.has(authority) || allowed.has(`${named}:${port}`);
}
