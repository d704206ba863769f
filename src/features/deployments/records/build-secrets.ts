/** A part of an address's path may be a token from this length on, in characters. */
const TOKEN_LENGTH_MIN = 16;
/** Variables with lists of hosts are not secret, and their values are common words. */
const hosts = /^no_proxy$/i;

/** Returns the texts in these variables of all builds that must not appear in a build log. An address without credentials is not secret. */
export function secretsOfBuilds(variables: Record<string, string>): string[] {
  return Object.entries(variables).flatMap(([name, value]) => (hosts.test(name) ? [] : secretsIn(value)));
}

function secretsIn(value: string): string[] {
  if (!/^https?:/i.test(value) || !URL.canParse(value)) return [value];
  const { username, password, pathname, search } = new URL(value);
  const tokens = pathname.split('/').filter((part) => part.length >= TOKEN_LENGTH_MIN);
  const parts = [username, password, search.slice(1), ...tokens].filter((part) => part !== '');
  if (parts.length === 0) return [];
  return [value, ...parts, ...parts.map(decoded)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
