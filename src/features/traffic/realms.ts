const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const quoted = '"(?:[^"\\\\]|\\\\.)*"';
const parameter = `${token}\\s*=\\s*(?:${token}|${quoted})`;
/** A scheme, alone, with its first parameter, or with a token instead of parameters; or a further parameter (RFC 9110, 11.3). */
const item = `(?:${token}(?:\\s+(?:${parameter}|[0-9A-Za-z._~+/-]+=*))?|${parameter})`;
const challenges = new RegExp(`^\\s*${item}(?:\\s*,\\s*${item})*\\s*$`);
const quotedText = new RegExp(`(${quoted})`);

/**
 * Returns the challenges of a `WWW-Authenticate` header with realms that no other agent of the service's origin has; null if the value is
 * not a list of challenges, since browsers read such values in different ways. A browser sends a password that was entered for a realm to
 * every page of the same origin that asks for that realm (RFC 7617, 2.2). `owner` is the agent's path, which contains no quotes.
 */
export function ownRealms(value: string, owner: string): string | null {
  if (!challenges.test(value)) return null;
  // Every second part is a quoted string, which contains no scheme or parameter.
  const parts = value.split(quotedText);
  const owned = parts.map((part, at) => {
    if (at % 2 === 1) return /\brealm\s*=\s*$/i.test(parts[at - 1] ?? '') ? `"${owner} ${part.slice(1)}` : part;
    const named = part.replace(/\b(realm\s*=\s*)([^\s,"]+)/gi, (_, name: string, text: string) => `${name}"${owner} ${text}"`);
    // A challenge without a realm gets one. A second realm in a challenge is replaced, too.
    return named.replace(/(?<=^|[,\s])(basic|digest)(?=$|[,\s])(?!\s+realm\s*=)/gi, (scheme) => `${scheme} realm="${owner}"`);
  });
  return owned.join('');
}
